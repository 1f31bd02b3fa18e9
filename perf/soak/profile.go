package soak

import "slices"

// Profile shapes what a soak does. Chances are of all events.
type Profile struct {
	Name    string
	Holders int
	Shards  int // TP shards of each holder
	Tiers   int // 1: device alone, 2: and host, 3: and disk
	Set     bool
	Own     bool // names of each holder's own, and second names
	Pool    int  // names are drawn from so few, whatever they meant before; 0: a block has its name

	Families, Paths, Shared, Length int // paths: so many families of so many, the first blocks shared
	Alphabet                        int // different contents, 0: all differ
	Capacity                        int // residencies a holder may have, about
	Event                           int // blocks of an event at most

	Holes bool // removes take what they like, not leaves first
	Clear float64
	Drop  float64
	Hide  float64

	Bytes  int     // budget; 0: none
	Unfair float64 // by how much of their mean shares of it may differ, of all that want more than there is
	Roots  bool    // every other store begins at the root, so that what was evicted is told again
	Grow   int     // a cycle is so many times as long: it takes much to fill a budget
	Chaos  bool    // the writer is stopped between any two of its stores, at random
}

// Profiles are the soaks, each for one matter.
func Profiles() []Profile {
	base := Profile{Holders: 8, Shards: 1, Tiers: 1, Families: 40, Paths: 12, Shared: 24, Length: 60, Capacity: 4000, Event: 32, Grow: 1}
	with := func(name string, f func(*Profile)) Profile {
		p := base
		p.Name = name
		f(&p)
		return p
	}
	return []Profile{
		with("strict", func(p *Profile) {}),
		with("chaos", func(p *Profile) { p.Chaos, p.Tiers, p.Hide, p.Clear = true, 2, .001, .0005 }),
		with("holes", func(p *Profile) { p.Holes, p.Tiers, p.Set = true, 3, true }),
		with("copies", func(p *Profile) { p.Holes, p.Tiers = true, 2 }),
		with("own-names", func(p *Profile) { p.Own, p.Holes, p.Clear = true, true, .0005 }),
		with("shards", func(p *Profile) { p.Shards, p.Tiers, p.Holders, p.Holes = 3, 2, 4, true }),
		with("adversarial", func(p *Profile) {
			p.Pool, p.Alphabet, p.Families, p.Paths, p.Length, p.Shared = 64, 2, 6, 6, 40, 10
			p.Capacity, p.Event, p.Holes = 48, 8, true
		}),
		with("many", func(p *Profile) {
			p.Holders, p.Families, p.Paths, p.Capacity, p.Event, p.Clear = 1000, 6, 4, 300, 64, .001
		}),
		with("churn", func(p *Profile) {
			p.Holders, p.Drop, p.Clear, p.Hide, p.Capacity, p.Tiers = 48, .01, .005, .005, 600, 2
		}),
		with("budget", func(p *Profile) {
			p.Bytes, p.Holders, p.Families, p.Paths, p.Capacity, p.Event, p.Grow = 2<<20, 12, 300, 24, 12_000, 48, 24
			p.Roots, p.Unfair = true, .05
		}),
		with("budget-tiers", func(p *Profile) {
			p.Bytes, p.Holders, p.Tiers, p.Holes, p.Own, p.Clear = 2<<20, 8, 3, true, true, .0002
			p.Families, p.Paths, p.Capacity, p.Grow = 100, 16, 6_000, 8
			p.Roots, p.Unfair = true, .05
		}),
	}
}

// Named returns one of Profiles; ok is false if there is none.
func Named(name string) (p Profile, ok bool) {
	all := Profiles()
	i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return all[i], true
}
