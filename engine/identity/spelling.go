package identity

import "slices"

// Spelling is something that another program writes and that we know from one
// version of it, from a discussion or by guess only. All of it that is about
// owners and their records stands in the table below: a correction is one line
// there. (Capability keys of hints stand in package hint, media in ingest/wire.)
type Spelling uint8

// The rows of the table.
const (
	FrameworkProtocol     Spelling = iota // ingress protocol without owned residency
	VLLMResidencyProtocol                 // ingress protocol, durable owner
	HiCacheProtocol                       // ingress protocol, engine-local owner

	ProtocolVersion // of source and attachment records

	TopicHosts
	TopicIntents
	TopicSources
	TopicAttachments
	TopicEvents // what a source's event_topic must be

	EventSourceModeKey  // worker key that silences its legacy stream
	EventSourceModeText // and its value

	VLLMMetadataKey      // object a vLLM worker publishes at start-up
	VLLMAdvertiseHostKey // in it: the host of raw endpoints
	VLLMCacheOwnersKey   // in it: rank → owner id
	HiCacheMetadataKey   // object an SGLang worker publishes
	HiCacheInventoryKey  // in it: whether the inventory is published

	// Start-up settings of a vLLM worker.
	SettingHeadless
	SettingRealtime
	SettingEmbedding
	SettingClassify
	SettingEncode
	SettingPrefixCaching
	SettingEvents
	SettingConsolidator
	// Start-up settings of an SGLang worker.
	SettingHierarchical
	SettingNodes
	SettingPipeline
	SettingTokenizers
	SettingStorageMode
	SettingRemoteHints
	SettingEventFormat

	numSpellings
)

// Confidence says how a spelling came to be known.
type Confidence uint8

// The confidences, best first.
const (
	Read     Confidence = iota // read in public source
	Public                     // stated in a public discussion, code not read
	Inferred                   // our guess from the context
)

// String names the confidence.
func (c Confidence) String() string {
	return [...]string{"read", "public", "inferred"}[min(c, Inferred)]
}

type row struct {
	emit   string   // what we write
	accept []string // what else we take for it
	known  Confidence
}

var spellings = [numSpellings]row{
	FrameworkProtocol:     {"framework_v1", nil, Read},
	VLLMResidencyProtocol: {"vllm_residency_v1", nil, Read},
	HiCacheProtocol:       {"sglang_hicache_v1", []string{"sglang_hi_cache_v1"}, Public},

	ProtocolVersion: {"v2", nil, Read},

	TopicHosts:       {"kv-state-hosts-v2", nil, Read},
	TopicIntents:     {"kv-state-attachment-intents-v2", nil, Read},
	TopicSources:     {"kv-state-sources-v2", nil, Read},
	TopicAttachments: {"kv-state-attachments-v2", nil, Read},
	TopicEvents:      {"kv-state-events-v2", nil, Read},

	EventSourceModeKey:  {"kv_event_source_mode", nil, Read},
	EventSourceModeText: {"state_agent_v2", nil, Read},

	VLLMMetadataKey:      {"dynamo_state_agent", nil, Read},
	VLLMAdvertiseHostKey: {"raw_advertise_host", nil, Read},
	VLLMCacheOwnersKey:   {"cache_owner_ids", nil, Read},
	HiCacheMetadataKey:   {"dynamo_state_agent", nil, Inferred},
	HiCacheInventoryKey:  {"publish_inventory", nil, Public},

	SettingHeadless:      {"headless", nil, Inferred},
	SettingRealtime:      {"realtime", nil, Inferred},
	SettingEmbedding:     {"embedding", nil, Inferred},
	SettingClassify:      {"classify", nil, Inferred},
	SettingEncode:        {"encode", nil, Inferred},
	SettingPrefixCaching: {"enable_prefix_caching", nil, Inferred},
	SettingEvents:        {"enable_kv_cache_events", nil, Read},
	SettingConsolidator:  {"consolidator", nil, Inferred},
	SettingHierarchical:  {"enable_hierarchical_cache", nil, Inferred},
	SettingNodes:         {"nnodes", nil, Inferred},
	SettingPipeline:      {"pp_size", nil, Inferred},
	SettingTokenizers:    {"tokenizer_worker_num", nil, Inferred},
	SettingStorageMode:   {"mode", nil, Inferred},
	SettingRemoteHints:   {"remote_hints", nil, Inferred},
	SettingEventFormat:   {"event_format", nil, Inferred},
}

// KnownOrigins are the origin bytes of owner keys. Which values other programs
// use is not known: keys order owners alike within cairn, and are not yet
// claimed to equal anybody else's.
var KnownOrigins = Origins{Semantics: 0, Scope: 0, Slot: 0}

// Text is what we write.
func (s Spelling) Text() string { return spellings[s].emit }

// Is reports whether text is one of the spellings met in the wild.
func (s Spelling) Is(text string) bool {
	r := &spellings[s]
	return text == r.emit || slices.Contains(r.accept, text)
}

// All returns what we write and everything else we accept, ours first.
func (s Spelling) All() []string {
	r := &spellings[s]
	return append([]string{r.emit}, r.accept...)
}

// Known says how sure the spelling is.
func (s Spelling) Known() Confidence { return spellings[s].known }
