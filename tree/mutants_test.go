package tree_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mutation is one thing done wrong in the protocol between writer and readers,
// or in the writer's arithmetic, and the test that must fail for it. In file,
// the one place that reads from is made to; where to says MUTANT, that is a
// condition that holds while this mutation is played.
type mutation struct {
	name, file, from, to string
	caught               string // regular expression of tests
	also                 *edit  // where one place is not enough
	long                 bool   // the tests are not played in their short form
}

type edit struct{ file, from, to string }

func (m mutation) edits() []edit {
	e := []edit{{m.file, m.from, m.to}}
	if m.also != nil {
		e = append(e, *m.also)
	}
	return e
}

var mutations = []mutation{
	// The order of stores and versions.
	{"a lowering moves no version", "run.go",
		`hd[hVersion].Store((version(w0)+1)<<countBits | uint64(n))`,
		`hd[hVersion].Store((version(w0)+1-b2u(MUTANT))<<countBits | uint64(n))`,
		`^(TestRootRemovedBeforeChildVanishes|TestHoleUnderReader)$`, nil, false},
	{"the version moves before the figure", "hold.go",
		"	gone := false\n	if l.plain() && hi < l.reach() && !x.holeFits(class) {",
		"	if MUTANT {\n		at.hd[hVersion].Store(at.hd[hVersion].Load() + version1)\n		x.mark(stepVersion)\n		early = 1\n		defer func() { early = 0 }()\n	}\n	gone := false\n	if l.plain() && hi < l.reach() && !x.holeFits(class) {",
		`^TestVersionMovesBehindTheFigure$`, &edit{"run.go",
			`		if d == endDied {
			n = min(`,
			`		if MUTANT {
			w0, early = w0-early<<countBits, 0
		}
		if d == endDied {
			n = min(`}, false},
	{"a run that is cut short by a child's end says nothing", "run.go",
		`		if lowered || n < count(w0) {
			hd`,
		`		if MUTANT && !lowered && n < count(w0) {
			hd[hVersion].Store(version(w0)<<countBits | uint64(n))
		} else if lowered || n < count(w0) {
			hd`,
		`^TestPathTrimmedUnderReader$`, nil, false},
	{"a run grows before its contents are there", "path.go",
		`				fillUnseen(hd[hBody+cnt:hBody+cnt+k], x.op.pairs[i*x.op.stride+1:], x.op.stride)
				x.mark(stepAppend)
				hd[hVersion].Store(w0 + uint64(k))
				x.mark(stepAppend)`,
		`				if MUTANT {
					hd[hVersion].Store(w0 + uint64(k))
					if x.lanes[x.op.lane].runs > 0 {
						slot := x.laneHere(spot{run: at.run, hd: hd})
						if l := lane(slot.Load()); l.plain() && l.reach() == cnt {
							slot.Store(uint64(l.withReach(cnt + k)))
							x.mark(stepAppend)
							slot.Store(uint64(l))
						}
					}
				}
				fillUnseen(hd[hBody+cnt:hBody+cnt+k], x.op.pairs[i*x.op.stride+1:], x.op.stride)
				x.mark(stepAppend)
				hd[hVersion].Store(w0 + uint64(k))
				x.mark(stepAppend)`,
		`^TestLinearizable$`, nil, false},
	{"a run comes back with the version it had", "run.go",
		`	hd[hVersion].Store((version(hd[hVersion].Load()) + 1) << countBits)
	fillUnseen(`,
		`	hd[hVersion].Store((version(hd[hVersion].Load()) + 1) << countBits)
	if MUTANT {
		hd[hVersion].Store(version1)
	}
	fillUnseen(`,
		`^TestRunRecycledUnderReader$`, nil, false},
	{"a larger cell is seen before it is filled", "cell.go",
		`	if old != 0 {
		from, to :=`,
		`	if MUTANT {
		setCell(hd, ref)
		x.mark(stepCell)
		hd[hCell].Store(uint64(old))
	}
	if old != 0 {
		from, to :=`,
		`^TestCellGrowsAtEveryStore$`, &edit{"cell.go",
			`	if old != 0 {
		hd[hVersion].Store(`,
			`	if old != 0 && !MUTANT {
		hd[hVersion].Store(`}, false},
	{"a lane changes in its group", "cell.go",
		`	if dense != 0 {
		x.ungroup(`,
		`	if dense != 0 && !MUTANT {
		x.ungroup(`,
		`^TestInterleavings$`, nil, false},
	{"a group has another reach and no other version", "groups.go",
		`		if hd != nil {
			hd[hVersion]`,
		`		if hd != nil && !MUTANT {
			hd[hVersion]`,
		`^TestGroupChangesItsReachUnderReader$`, nil, false},
	{"a holder is met in two groups", "crowd.go",
		`			a &^= b
			if reach`,
		`			if !MUTANT {
				a &^= b
			}
			if reach`,
		`^TestDifferential$/^many$`, nil, false},
	{"a side record is freed while readers may be in it", "hold.go",
		`	x.mark(stepRows)
	at.hd[hVersion].Store(at.hd[hVersion].Load() + version1)
	x.mark(stepVersion)
	x.freeSide(l.ref(), class)`,
		`	x.mark(stepRows)
	if !MUTANT {
		at.hd[hVersion].Store(at.hd[hVersion].Load() + version1)
	}
	x.mark(stepVersion)
	x.freeSide(l.ref(), class)`,
		`^TestSideRecordRecycledUnderReader$`, nil, false},
	{"names are freed while readers may be in them", "own.go",
		`	x.mark(stepNames)
	at.hd[hVersion].Store(at.hd[hVersion].Load() + version1)
	x.mark(stepVersion)`,
		`	x.mark(stepNames)
	if !MUTANT {
		at.hd[hVersion].Store(at.hd[hVersion].Load() + version1)
	}
	x.mark(stepVersion)`,
		`^TestNamesMoveUnderReader$`, nil, false},
	{"the extension moves back to the device under a walk", "hold.go",
		`now&0xffff > ext&0xffff && now>>16&0xffff > 0 {`,
		`!MUTANT && now&0xffff > ext&0xffff && now>>16&0xffff > 0 {`,
		`^TestExtensionMovesUnderReader$`, nil, false},
	{"a holder is shown without a word before", "holder.go",
		`	x.epoch.Add(1)
	x.mark(stepOwner)
	if x.owners[s.lane]`,
		`	x.epoch.Add(1 - b2u(MUTANT))
	x.mark(stepOwner)
	if x.owners[s.lane]`,
		`^TestShownUnderReader$`, nil, false},
	{"an id's new owner is told before he is noted", "holder.go",
		`		x.owners[s.lane].Store(uint32(h))
		x.mark(stepOwner)
		x.seats.Add(1)
`,
		`		if MUTANT {
			x.seats.Add(1)
			x.mark(stepOwner)
		}
		x.owners[s.lane].Store(uint32(h))
		x.mark(stepOwner)
		if !MUTANT {
			x.seats.Add(1)
		}
`,
		`^TestLevelsKnowWhoseAnIdIs$`, nil, false},
	{"an id comes back without a word", "holder.go",
		`	s.lane, s.gen, s.rule, s.shards, s.hidden = id, s.gen+1, p, uint8(shards), false
	x.whole(s.handle(i))
	x.publishOwner(s.handle(i), s)`,
		`	s.lane, s.gen, s.rule, s.shards, s.hidden = id, s.gen+1, p, uint8(shards), false
	x.whole(s.handle(i))
	was := x.epoch.Load()
	x.publishOwner(s.handle(i), s)
	if MUTANT {
		x.epoch.Store(was)
	}`,
		`^TestReusedUnderReader$`, nil, false},
	{"an id is free while lanes carry it", "holder.go",
		`	x.retired = append(x.retired, id)
}`,
		`	if MUTANT {
		x.lanesFree = append(x.lanesFree, id)
		return
	}
	x.retired = append(x.retired, id)
}`,
		`^TestDifferential$/^tp$`, nil, false},

	{"a run moves, and its parent does not say so", "move.go",
		`		ph[hVersion].Store(ph[hVersion].Load() + version1)`,
		`		ph[hVersion].Store(ph[hVersion].Load() + version1*(1-b2u(MUTANT)))`,
		`^TestRunMovedUnderReader$`, nil, false},
	{"runs become one, and their parent does not say so", "merge.go",
		`		ph[hVersion].Store(ph[hVersion].Load() + version1)`,
		`		ph[hVersion].Store(ph[hVersion].Load() + version1*(1-b2u(MUTANT)))`,
		`^TestRunsMergedUnderReader$`, nil, false},
	{"runs become one though somebody holds only the later", "merge.go",
		` || lanes[at].reach() != base`,
		` || lanes[at].reach() != base && !MUTANT`,
		`^TestDifferential$`, nil, false},

	// What readers look at again.
	{"a walk does not look back", "match.go",
		`	check := len(r.steps)
`,
		`	check := len(r.steps)
	if MUTANT {
		check, ended = 1, false
	}
`,
		`^(TestRootRemovedBeforeChildVanishes|TestHoleUnderReader)$`, nil, false},
	{"a walk does not ask for the epoch", "match.go",
		`	return x.epoch.Load() == epoch
`,
		`	return MUTANT || x.epoch.Load() == epoch
`,
		`^(TestLaneIDRecycledUnderReader|TestShownUnderReader)$`, nil, false},
	{"a run that grew under a match is not looked at again", "match.go",
		`w != w0 && m == count(w0) && p+m < len(h) {`,
		`!MUTANT && w != w0 && m == count(w0) && p+m < len(h) {`,
		`^TestRunGrowsUnderReader$`, nil, false},
	{"a missing child is believed", "match.go",
		`	if !ended {
		check--
	}`,
		`	if !ended || MUTANT {
		check--
	}`,
		`^TestRootRemovedBeforeChildVanishes$`, nil, false},

	// The writer's arithmetic.
	{"the last of a long removal is dropped", "remove.go",
		`	x.op.span, x.op.stride, x.op.pairs = 1, 1, names
	if len(names) > 1 {`,
		`	if MUTANT && len(names) > 8 {
		names = names[:len(names)-1]
	}
	x.op.span, x.op.stride, x.op.pairs = 1, 1, names
	if len(names) > 1 {`,
		`^TestDifferential$/^leaf-first$`, nil, false},
	{"the first block of a name is believed to be the holder's", "resolve.go",
		`	if l == 0 {
		return at, false
	}
	return at,`,
		`	if l == 0 {
		return at, MUTANT
	}
	return at,`,
		`^TestDifferential$/^reuse$`, nil, false},
	{"a holder with names of its own has no others", "resolve.go",
		`	case ls.runs:
		return x.resolveOwn(name)
	}`,
		`	case ls.runs:
		return x.resolveOwn(name)
	}
	if MUTANT {
		return x.resolveOwn(name)
	}`,
		`^TestDifferential$/^reuse$`, nil, false},
	{"an own name outlives its block", "own.go",
		`		own.removeAll(homes, at.run, lo)`,
		`		if !MUTANT {
			own.removeAll(homes, at.run, lo)
		}`,
		`^TestDifferential$/^reuse$`, nil, false},
	{"a chain's end is remembered longer than it is held", "resolve.go",
		`names[at.pos()].Load() == name && x.holds(l, at.class(), at.pos(), shard)`,
		`names[at.pos()].Load() == name && (MUTANT || x.holds(l, at.class(), at.pos(), shard))`,
		`^TestDifferential$`, nil, false},
	{"a chain's end is sought where its holder has fewer names", "resolve.go",
		`	return at, at.pos() < len(names) && `,
		`	return at, (MUTANT || at.pos() < len(names)) && `,
		`^TestDifferential$`, nil, false},
	{"what is remembered of a chain's end is believed", "resolve.go",
		`		if at, ok := x.means(e, name); ok {
			return at, true
		}
		if`,
		`		if at, ok := x.means(e, name); ok || MUTANT {
			return at, true
		}
		if`,
		`^TestDifferential$/^leaf-first$`, nil, false},
	{"a block is appended beside the child that has it", "path.go",
		`l.tier() != x.op.tier || childBit(hd, class, pos) {`,
		`l.tier() != x.op.tier || !MUTANT && childBit(hd, class, pos) {`,
		`^TestAppendOne$`, nil, false},
	{"a block is appended under a name that means another", "path.go",
		`		if x.nameOf(e) == name {
			return false
		}
	}
	return true`,
		`		if x.nameOf(e) == name && !MUTANT {
			return false
		}
	}
	return true`,
		`^TestAppendOne$`, nil, false},
	{"a block is appended under an own name that means another", "path.go",
		`ls.own.first(h); e != 0 {`,
		`ls.own.first(h); e != 0 && !MUTANT {`,
		`^TestAppendOne$`, nil, false},
	{"a block is appended under an own name that means a shared one", "path.go",
		`	case l.own() && ls.ownRuns == ls.runs:`,
		`	case l.own() && (MUTANT || ls.ownRuns == ls.runs):`,
		`^TestAppendOne$`, nil, false},
	{"a holder that is given a block stays in its group", "path.go",
		`	if dense != 0 {
		x.ungroup(hd, dense, x.op.lane)
	}
	if l.own()`,
		`	if dense != 0 && !MUTANT {
		x.ungroup(hd, dense, x.op.lane)
	}
	if l.own()`,
		`^TestAppendOne$`, nil, false},
	{"an appended block is counted before its content is there", "path.go",
		`	fillUnseen(hd[hBody+pos:hBody+pos+1], x.op.pairs[1:], 1)
	x.mark(stepAppend)
	hd[hVersion].Store(hd[hVersion].Load() + 1)
	x.mark(stepAppend)
`,
		`	if MUTANT {
		slot.Store(uint64(l.withReach(pos + 1)))
		hd[hVersion].Store(w0 + 1)
		x.mark(stepAppend)
		hd[hVersion].Store(w0)
	}
	fillUnseen(hd[hBody+pos:hBody+pos+1], x.op.pairs[1:], 1)
	x.mark(stepAppend)
	hd[hVersion].Store(hd[hVersion].Load() + 1)
	x.mark(stepAppend)
`,
		`^TestAppendOneUnderReader$`, nil, false},
	{"one TP shard is enough", "side.go",
		`				tiers[t][i] &= b`,
		`				if MUTANT {
					tiers[t][i] |= b
				} else {
					tiers[t][i] &= b
				}`,
		`^TestDifferential$/^tp$`, nil, false},
	{"a ghost keeps its name in the table", "hold.go",
		`			x.names.removeAll(homes, at.run, w<<6+from)`,
		`			if !MUTANT {
				x.names.removeAll(homes, at.run, w<<6+from)
			}`,
		`^TestDifferential$/^holes$`, nil, false},
	{"a name that passed a full line is taken for a new one", "nametable.go",
		`		n += int(-(passedBy(word, h<<nameCut) | lineMatch(word, h<<nameCut)) >> 63) // 1 if there is any`,
		`		if MUTANT {
			word &= 1<<linePassed - 1
		}
		n += int(-(passedBy(word, h<<nameCut) | lineMatch(word, h<<nameCut)) >> 63) // 1 if there is any`,
		`^TestNameTable$`, nil, false},
	{"a name goes in beside another block's", "nametable.go",
		`		if !s.putStrange(hash&entryHash|(block+uint64(n)), 0) {
			break`,
		`		if !s.putStrange(hash&entryHash|(block+uint64(n)), 0) {
			if MUTANT {
				s.put(hash&entryHash|(block+uint64(n)), 0)
				n++
				continue
			}
			break`,
		`^TestDifferential$`, nil, false},
	{"a name goes in beside its holder's other block", "ownnames.go",
		`		if !s.putStrange(hashes[n]&entryHash|(block+uint64(n)), 0) {
			break`,
		`		if !s.putStrange(hashes[n]&entryHash|(block+uint64(n)), 0) {
			if MUTANT {
				s.put(hashes[n]&entryHash|(block+uint64(n)), 0)
				n++
				continue
			}
			break`,
		`^TestDifferential$`, nil, false},
	{"a prompt begins where another did", "match.go",
		`	if c.id != 0 && c.hd[hLink].Load() == link && c.hd[hBody].Load() == content {`,
		`	if c.id != 0 && (MUTANT || c.hd[hLink].Load() == link && c.hd[hBody].Load() == content) {`,
		`^TestDifferential$`, nil, false},
	{"the first child of a long run is not sought again", "run.go",
		`		if off == first {
			i`,
		`		if off == first && !MUTANT {
			i`,
		`^TestDifferential$`, nil, false},
	{"a private holder's names are the runs' where it is first", "naming.go",
		`!x.lanes[x.op.lane].private() && x.shareNames(`,
		`(MUTANT || !x.lanes[x.op.lane].private()) && x.shareNames(`,
		`^TestPrivateHolder$`, nil, false},
	{"a private holder bears its parent's shared names for ever", "own.go",
		`	if ls.ownRuns == ls.runs || !ls.private()`,
		`	if MUTANT || ls.ownRuns == ls.runs || !ls.private()`,
		`^TestPrivateHolder$`, nil, false},
	{"a private holder takes what looks like a name for a new one", "naming.go",
		`		if e, _ := ls.own.first(x.names.hash(x.op.name(i))); e == 0 {`,
		`		if e, _ := ls.own.first(x.names.hash(x.op.name(i))); e == 0 || MUTANT {`,
		`^TestDifferential$`, nil, false},
	{"what a name ends stays without a holder", "naming.go",
		`	if k < n {
		at.hd`,
		`	if k < n && !MUTANT {
		at.hd`,
		`^TestNothingIsLeftOver$`, nil, false},
	{"searches end where the first began", "lines.go",
		`d < passed+lines;`,
		`d < passed*int(b2u(!MUTANT))+lines;`,
		`^TestPassedAroundTheEnd$`, nil, false},
	{"a kind of names has passed a line no more", "lines.go",
		`		if d <= passed && first >= d {`,
		`		if d <= passed && (first >= d || MUTANT) {`,
		`^TestNameTable$`, nil, false},
	{"a block is stored behind itself", "duplicates.go",
		`		seen[h>>32&mask] = seenBits(h)`,
		`		if !MUTANT {
			seen[h>>32&mask] = seenBits(h)
		}`,
		`^TestDuplicates$`, nil, false},
	{"what waits attaches once only", "waiting.go",
		`	x.work = append(x.work, w.name)
}`,
		`	if !MUTANT {
		x.work = append(x.work, w.name)
	}
}`,
		`^TestDifferential$/^orphans$`, nil, false},
	{"an empty run stays", "run.go",
		`		if n > 0 || m.children() > 0`,
		`		if MUTANT || n > 0 || m.children() > 0`,
		`^TestDifferential$/^leaf-first$`, nil, false},
	{"a second copy is lost with the first", "hold.go",
		`		if v.n > 0 && x.op.rule == Copies {
			x.support(at, slot, v)
		}
	default:`,
		`		if v.n > 0 && x.op.rule == Copies && !MUTANT {
			x.support(at, slot, v)
		}
	default:`,
		`^TestDifferential$/^holes$`, nil, false},
	{"nothing is asked for before it is charged", "budget.go",
		`func (x *Index) tight() bool { return x.budget.limit > 0`,
		`func (x *Index) tight() bool { return !MUTANT && x.budget.limit > 0`,
		`^TestBudget$/^plain$`, nil, true},
	{"what a store goes on from gives way to it", "evict.go",
		`	for at.run != c.keep {`,
		`	for MUTANT || at.run != c.keep {`,
		`^TestBudget$`, nil, true},
	{"who brings something is looked at before it has it", "evict.go",
		`	b.ranks.note(own) // the event goes on`,
		`	if !MUTANT {
		b.ranks.note(own)
	}`,
		`^TestSharesAreEqual$`, nil, true},
	{"memory stays with the kind it was given to", "evict.go",
		`	took := x.giveBack()`,
		`	took := !MUTANT && x.giveBack()`,
		`^TestSharesAreEqualWhenOthersAreTold$`, nil, true},
	{"versions begin anew in new memory", "shelf.go",
		`			block[i].Store(f.floor << countBits)`,
		`			block[i].Store(f.floor * b2u(!MUTANT) << countBits)`,
		`^TestVersionsGoOn$`, nil, false},
	{"a block of several units is cut in two", "cut.go",
		`	x.cutSpans(at, id, from)
`,
		`	if !MUTANT {
		x.cutSpans(at, id, from)
	}
`,
		`^TestBudget$/^long-blocks$`, nil, true},
}

// TestMutantsAreCaught builds the tests over a source with all mutations in it,
// and plays each: the tests it names must fail. It runs with CAIRN_MUTANTS=1
// (make mutants): it needs the go command and half a minute.
func TestMutantsAreCaught(t *testing.T) {
	if os.Getenv("CAIRN_MUTANTS") == "" {
		t.Skip("CAIRN_MUTANTS is not set: see make mutants")
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	put := func(path, text string) {
		t.Helper()
		abs, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, strings.ReplaceAll(filepath.ToSlash(path), "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[abs] = to
	}
	sources := map[string]string{}
	for i, m := range mutations {
		for _, e := range m.edits() {
			if sources[e.file] == "" {
				src, err := os.ReadFile(e.file)
				if err != nil {
					t.Fatal(err)
				}
				sources[e.file] = string(src)
			}
			if n := strings.Count(sources[e.file], e.from); n != 1 {
				t.Errorf("%q: %s has its place %d times, want once: give it another", m.name, e.file, n)
			}
			sources[e.file] = strings.Replace(sources[e.file], e.from, strings.ReplaceAll(e.to, "MUTANT", fmt.Sprintf("(mutant == %d)", i+1)), 1)
		}
	}
	for file, text := range sources {
		put(file, text)
	}
	put("mutant.go", `package tree

import (
	"os"
	"strconv"
)

var (
	mutant, _ = strconv.Atoi(os.Getenv("CAIRN_MUTANT"))
	early     uint64
)

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
`)
	shrinking, err := os.ReadFile("model/differ/run.go") // nobody reads what is found here
	if err != nil {
		t.Fatal(err)
	}
	put("model/differ/run.go", strings.Replace(string(shrinking), "shrinkTime = 20 * time.Second", "shrinkTime = time.Millisecond", 1))
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "mutants.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("the mutants do not compile: %v\n%s", err, out)
	}
	play := func(mutant int, m mutation) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, binary, fmt.Sprint("-test.short=", !m.long), "-test.failfast", "-test.run", m.caught)
		c.Env = append(os.Environ(), fmt.Sprint("CAIRN_MUTANT=", mutant), "CAIRN_MUTANTS=")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	played := map[string]bool{}
	for i, m := range mutations {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			if !played[m.caught] {
				if out, err := play(0, m); err != nil {
					t.Fatalf("the tests %s fail without a mutation: %v\n%s", m.caught, err, out)
				}
				played[m.caught] = true
			}
			out, err := play(i+1, m)
			if err == nil {
				t.Errorf("%s pass", m.caught)
			}
			for _, line := range strings.Split(out, "\n") {
				if strings.Contains(line, "_test.go:") || strings.Contains(line, "panic:") {
					t.Log(line)
					break
				}
			}
		})
	}
}
