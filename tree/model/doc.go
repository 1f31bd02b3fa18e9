// Package model is the reference index: the meaning of tree.Interface written
// down as plainly as possible. Tests compare *tree.Index with it, and the
// engine's tests may run on it. It is slow on purpose where speed would cost
// clarity, and it shares no idea with the real index: no runs, no reaches, no
// hashing of chains, no deferred work.
//
//	Model ── holders ── shards ── name → block ──┬─ at: place (resident)
//	  │                                          └─ parent name (waiting)
//	  └─ roots ── place ── content → place …
//
// # Meaning
//
// A place is one position of one chain: a root and every content from there
// on, interned as a node whose parents are the contents in front of it. Two
// chains are equal exactly when they end at the same place.
//
// Per (holder, shard) a name has one meaning, the last one announced: it is
// either resident (its block ends at a place and covers span positions) or
// waiting (for a parent name nobody holds yet in that shard). Its copies are
// counted per tier. Everything else follows:
//
//   - Announcing a name with another meaning moves all its copies on all
//     tiers there, also into waiting or out of it. Children stored before
//     keep their places.
//   - A name without copies is forgotten.
//   - A store is the same as storing its blocks one by one, each behind the
//     name before it. What waits behind them attaches after the last one.
//   - A parent is known when it is resident in the same shard of the holder.
//   - With KeepMeaning a name that has a meaning, waiting or not, keeps it and
//     gains a copy. With SkipUnknown, and in Place, only resident names count.
//   - A position is held on a tier when in every shard some block covers it
//     with a copy on that tier. Views combine tiers position by position.
//
// # Concurrency
//
// One mutex guards a Model. Writer methods and any number of Readers may be
// used from different goroutines; one Reader belongs to one goroutine.
package model
