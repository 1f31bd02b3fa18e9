package differ

import "github.com/cairn-kv/cairn/tree"

// Profile shapes the ops that Generate makes. Chances are 0 to 1.
type Profile struct {
	Name             string
	Holders          [2]int      // from, to
	TP               int         // holders have up to so many TP shards
	Tiers            []tree.Tier // where blocks go
	Prefixes         int         // chains; later ones fork from earlier ones
	Length           [2]int      // units of a chain
	Long             int         // units of one further, very long chain; 0: none
	Spans            int         // blocks cover 1 to so many units
	Roots            int
	Set              float64 // holders with policy Set
	Private          float64 // holders with names of their own
	Small            float64 // names that are small numbers and collide
	Twins            float64 // stores under second names
	Reuse            float64 // a block in a store takes a name known for something else
	Orphans          float64 // chains sent in pieces, children first
	Keep             float64 // stores that keep meanings
	LeafFirst        bool    // removals only take ends of chains, deepest first
	Waits            float64 // chance that a TP shard's events lag, and disagree a little
	Clear, Drop      float64 // of all ops
	Hide, Place, Bad float64 // of all ops
	QueryEvery       int     // ops per query
}

// Profiles are the shapes that differential tests run through: each strains
// one matter, the last all of them.
func Profiles() []Profile {
	dev := []tree.Tier{tree.Device}
	tiers := []tree.Tier{tree.Device, tree.Device, tree.Host, tree.Disk}
	every := []tree.Tier{tree.Device, tree.Host, tree.Disk, tree.External, tree.Unknown}
	plain := Profile{Holders: [2]int{2, 12}, TP: 1, Tiers: dev, Prefixes: 5, Length: [2]int{4, 60}, Spans: 1, Roots: 1,
		Clear: .03, Drop: .03, Hide: .01, Bad: .01, QueryEvery: 1}
	with := func(name string, f func(*Profile)) Profile {
		p := plain
		p.Name = name
		f(&p)
		return p
	}
	return []Profile{
		with("leaf-first", func(p *Profile) { p.LeafFirst = true }),
		with("holes", func(p *Profile) { p.Set = .3 }),
		with("tiers", func(p *Profile) { p.Tiers, p.Place, p.Keep = tiers, .08, .05 }),
		with("private", func(p *Profile) { p.Private, p.Tiers = .6, []tree.Tier{tree.Device, tree.Host} }),
		with("twins", func(p *Profile) { p.Twins, p.Set = .3, .3 }),
		with("reuse", func(p *Profile) { p.Reuse, p.Small, p.Roots, p.Tiers = .2, .5, 2, tiers }),
		with("orphans", func(p *Profile) { p.Orphans, p.Tiers, p.Reuse = .3, tiers, .02 }),
		with("tp", func(p *Profile) { p.TP, p.Waits, p.Tiers, p.Holders = 3, .5, tiers, [2]int{2, 6} }),
		with("spans", func(p *Profile) { p.Spans, p.Tiers, p.Length = 3, tiers, [2]int{6, 90} }),
		with("many", func(p *Profile) {
			p.Holders, p.Prefixes, p.QueryEvery, p.Private = [2]int{100, 300}, 4, 6, .05
		}),
		with("long", func(p *Profile) {
			p.Holders, p.Prefixes, p.Length, p.Long, p.QueryEvery = [2]int{2, 5}, 3, [2]int{50, 900}, 5000, 4
		}),
		with("mixed", func(p *Profile) {
			p.Holders, p.TP, p.Waits, p.Tiers, p.Spans, p.Roots = [2]int{2, 16}, 3, .3, every, 3, 3
			p.Set, p.Private, p.Small, p.Twins, p.Reuse, p.Orphans, p.Keep = .3, .2, .2, .1, .05, .1, .05
			p.Hide, p.Place, p.Bad = .02, .04, .02
		}),
	}
}

// ProfileNamed returns one of Profiles; ok is false if there is none.
func ProfileNamed(name string) (p Profile, ok bool) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}
