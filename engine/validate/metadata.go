package validate

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-kv/cairn/engine/identity"
)

// Settings are a worker's start-up settings by name, as JSON. All that a
// check asks for must be stated.
type Settings map[string]json.RawMessage

// Agent is what a worker publishes, at start-up, of the residency it owns.
type Agent struct {
	Protocol identity.Protocol
	Host     string // canonical, for raw endpoints
	Owners   map[uint32]identity.CacheOwnerID
}

// setting is one row of what residency needs of a worker.
type setting struct {
	name identity.Spelling
	need string // JSON: true, false, 1, "storage"
	why  string // what is wrong with any other value
}

var vllmSettings = []setting{
	{identity.SettingHeadless, "false", "a headless worker has no front end that could publish"},
	{identity.SettingRealtime, "false", "a realtime worker's requests have no prefix to share"},
	{identity.SettingEmbedding, "false", "an embedding worker keeps no prefix"},
	{identity.SettingClassify, "false", "a classifying worker keeps no prefix"},
	{identity.SettingEncode, "false", "an encoding worker keeps no prefix"},
	{identity.SettingPrefixCaching, "true", "without prefix caching nothing is resident"},
	{identity.SettingEvents, "true", "without events nothing is told"},
	{identity.SettingConsolidator, "false", "a consolidator merges the domains that must stay apart"},
}

var hiCacheSettings = []setting{
	{identity.SettingHierarchical, "true", "without the hierarchical cache there is no owner"},
	{identity.SettingNodes, "1", "an owner does not span nodes"},
	{identity.SettingPipeline, "1", "stages of a pipeline hold different layers of a block"},
	{identity.SettingTokenizers, "1", "several tokenizer workers would publish side by side"},
	{identity.SettingStorageMode, `"storage"`, "a linked cache fails a request whose load fails, so a hint would do harm"},
	{identity.SettingRemoteHints, "true", "without remote hints nobody fetches"},
	{identity.SettingEventFormat, `"dynamo"`, "other formats do not tell who owns a block"},
}

// VLLM checks a vLLM worker's metadata and settings. ok is false if the worker
// has no such metadata, or null: it is a plain one, and nothing changes for
// it. Metadata that is there must be whole. The error is nil or Errors.
func VLLM(metadata map[string]json.RawMessage, settings Settings, managed []uint32) (a Agent, ok bool, err error) {
	field := identity.VLLMMetadataKey.Text()
	var f findings
	body, ok := f.object(metadata, field)
	if !ok {
		return Agent{}, false, f.err()
	}
	a = f.agent(field, body, managed)
	a.Protocol = identity.VLLMResidency
	f.settings(settings, vllmSettings)
	return a, true, f.err()
}

// HiCache checks an SGLang worker's metadata and settings. ok is false if the
// worker has no such metadata, or null, or says that it publishes no
// inventory: it is a plain one, and nothing changes for it. The error is nil
// or Errors.
func HiCache(metadata map[string]json.RawMessage, settings Settings, managed []uint32) (a Agent, ok bool, err error) {
	field := identity.HiCacheMetadataKey.Text()
	var f findings
	body, ok := f.object(metadata, field)
	if !ok {
		return Agent{}, false, f.err()
	}
	key := identity.HiCacheInventoryKey.Text()
	raw, stated := body[key]
	switch {
	case !stated:
		f.missing(field+"."+key, "true, or false for a plain worker")
	case string(raw) == "false":
		return Agent{}, false, nil
	case string(raw) != "true":
		f.add(MetadataShape, field+"."+key, string(raw), "is no truth value", "true or false")
	}
	delete(body, key)
	a = f.agent(field, body, managed)
	a.Protocol = identity.HiCache
	f.settings(settings, hiCacheSettings)
	return a, true, f.err()
}

func (f *findings) missing(field, want string) {
	f.add(SettingMissing, field, "", "is not stated, and there is no default for it", want)
}

// object reads a member that is an object. ok is false if it is absent or null,
// or is none, which is noted.
func (f *findings) object(in map[string]json.RawMessage, key string) (body map[string]json.RawMessage, ok bool) {
	raw, stated := in[key]
	if !stated || string(bytes.TrimSpace(raw)) == "null" {
		return nil, false
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		f.add(MetadataShape, key, string(raw), "is no object", "an object")
		return nil, false
	}
	return body, true
}

// agent reads the advertised host and the owners, and refuses what else there is.
func (f *findings) agent(field string, body map[string]json.RawMessage, managed []uint32) (a Agent) {
	host, owners := identity.VLLMAdvertiseHostKey.Text(), identity.VLLMCacheOwnersKey.Text()
	for _, key := range slices.Sorted(maps.Keys(body)) {
		if key != host && key != owners {
			f.add(MetadataShape, field+"."+key, string(body[key]), "is no field of it", strings.Join([]string{host, owners}, " and "))
		}
	}
	text, err := String(field+"."+host, body[host])
	if err == nil {
		a.Host, err = Host(field+"."+host, text)
	}
	f.note(err)

	at := field + "." + owners
	if len(body[owners]) == 0 {
		f.missing(at, "the owner of every managed rank, by rank")
		return a
	}
	var byRank map[string]string
	if err := json.Unmarshal(body[owners], &byRank); err != nil || byRank == nil {
		f.add(MetadataShape, at, string(body[owners]), "is no object of strings", `an object: {"0": owner id, …}`)
		return a
	}
	a.Owners, err = RankOwners(at, byRank, managed)
	f.note(err)
	return a
}

func (f *findings) settings(given Settings, rows []setting) {
	for _, row := range rows {
		name := row.name.Text()
		raw, stated := given[name]
		value := string(bytes.TrimSpace(raw))
		switch {
		case !stated || value == "" || value == "null":
			f.missing(name, row.need)
		case value != row.need:
			f.add(SettingUnfit, name, value, row.why, row.need)
		}
	}
}

// String reads a JSON string that is not blank. The error is an *Error.
func String(field string, raw json.RawMessage) (string, error) {
	var s string
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return "", &Error{HostRequired, field, "", "is required", "a string"}
	}
	if err := json.Unmarshal(trimmed, &s); err != nil {
		return "", &Error{HostRequired, field, string(trimmed), "is required and is no string", "a string"}
	}
	if strings.TrimSpace(s) == "" {
		return "", &Error{HostRequired, field, s, "is required and is blank", "a string"}
	}
	return s, nil
}
