package validate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/cairn-kv/cairn/engine/identity"
)

// Rank reads a canonical decimal dp rank: no sign, no leading zero.
func Rank(field, s string) (uint32, error) {
	v, err := strconv.ParseUint(s, 10, 32)
	if err != nil || strconv.FormatUint(v, 10) != s {
		return 0, &Error{RankSpelling, field, s, "is no dp rank in plain decimal", "0, 1, 2, … as the engine numbers its ranks over all nodes"}
	}
	return uint32(v), nil
}

// perRank matches a map by rank, as JSON has it, with the ranks that a worker
// manages. It gives the keys by rank and reports missing and extra ones, each
// under its rule and by its number.
func perRank[V any](f *findings, field string, given map[string]V, managed []uint32, missing, extra Rule, what string) map[uint32]string {
	byRank := make(map[uint32]string, len(given))
	for _, key := range slices.Sorted(maps.Keys(given)) {
		r, err := Rank(field, key)
		if err != nil {
			f.note(err)
			continue
		}
		if !slices.Contains(managed, r) {
			f.add(extra, field, key, fmt.Sprintf("rank %d is not managed by this worker, which has ranks %v", r, managed), "exactly the managed ranks")
			continue
		}
		byRank[r] = key
	}
	for _, r := range managed {
		if _, ok := byRank[r]; !ok {
			f.add(missing, field, number(r), fmt.Sprintf("rank %d has no %s; ranks given: %v", r, what, slices.Sorted(maps.Keys(byRank))), "exactly the managed ranks "+fmt.Sprint(managed))
		}
	}
	return byRank
}

// HintEndpoints checks the hint control endpoints of a worker's managed ranks,
// by rank in decimal: every managed rank has one, or none has. The result is
// canonical, nil if there are none. The error is nil or Errors.
func HintEndpoints(field string, endpoints map[string]string, managed []uint32) (map[uint32]string, error) {
	if len(endpoints) == 0 {
		return nil, nil
	}
	var f findings
	byRank := perRank(&f, field, endpoints, managed, HintRankMissing, HintRankUnknown, "hint endpoint")
	result := make(map[uint32]string, len(byRank))
	for _, r := range slices.Sorted(maps.Keys(byRank)) {
		ep, err := HintEndpoint(fmt.Sprintf("%s[%d]", field, r), endpoints[byRank[r]])
		f.note(err)
		result[r] = ep
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return result, nil
}

// RankOwners checks the cache owners of a worker's managed ranks, by rank in
// decimal: every managed rank has one of its own. The error is nil or Errors.
func RankOwners(field string, owners map[string]string, managed []uint32) (map[uint32]identity.CacheOwnerID, error) {
	var f findings
	byRank := perRank(&f, field, owners, managed, OwnerRankMissing, OwnerRankUnknown, "cache owner")
	result := make(map[uint32]identity.CacheOwnerID, len(byRank))
	taken := make(map[identity.CacheOwnerID]uint32, len(byRank))
	for _, r := range slices.Sorted(maps.Keys(byRank)) {
		at, text := fmt.Sprintf("%s[%d]", field, r), owners[byRank[r]]
		id, err := Owner(at, text)
		if err != nil {
			f.note(err)
			continue
		}
		if first, is := taken[id]; is {
			f.add(OwnerShared, at, text, fmt.Sprintf("ranks %d and %d share it", first, r), wantOwner)
		}
		taken[id], result[r] = r, id
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	return result, nil
}

// Owner reads the id of a cache owner. The error is an *Error for field.
func Owner(field, text string) (identity.CacheOwnerID, error) {
	id, err := identity.ParseCacheOwnerID(text)
	if err != nil {
		e := err.(*identity.SyntaxError)
		return id, &Error{OwnerSpelling, field, text, e.Why, e.Want}
	}
	return id, nil
}

// Domain reads an indexer domain. The error is an *Error for field.
func Domain(field, text string) (identity.IndexerDomain, error) {
	d, err := identity.ParseIndexerDomain(text)
	if err != nil {
		e := err.(*identity.SyntaxError)
		return d, &Error{OwnerSpelling, field, text, e.Why, e.Want}
	}
	return d, nil
}
