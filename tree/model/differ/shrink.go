package differ

import (
	"slices"
	"time"

	"github.com/cairn-kv/cairn/tree"
)

// Shrink makes a failing list of ops smaller: first whole ops, then blocks
// within ops, then numbers. It returns the smallest list it found that still
// fails (not always in the same way) and how that one fails. It stops looking
// after about the given time.
func Shrink(newIndex func() tree.Interface, ops []Op, first *Failure, o Options, within time.Duration) ([]Op, *Failure) {
	s := &shrinker{newIndex: newIndex, options: o, until: time.Now().Add(within), ops: ops, fail: first}
	s.cut()
	if first.Hung {
		return s.ops, s.fail // every attempt would leave a spinning goroutine
	}
	if o.CheckEvery > 1 { // else the list must keep a length that meets the check
		s.options.CheckEvery = 1
		if s.try(s.ops); s.fail == first {
			s.options.CheckEvery = o.CheckEvery
		}
	}
	for {
		before := size(s.ops)
		s.dropAlike()
		s.dropOps()
		s.dropBlocks()
		s.simplify()
		if size(s.ops) == before || s.late() {
			break
		}
	}
	s.renumber()
	return s.ops, s.fail
}

type shrinker struct {
	newIndex func() tree.Interface
	options  Options
	until    time.Time
	ops      []Op
	fail     *Failure
}

func (s *shrinker) late() bool { return time.Now().After(s.until) }

// try keeps ops if they fail.
func (s *shrinker) try(ops []Op) bool {
	if s.late() {
		return false
	}
	_, fail := Replay(s.newIndex, ops, s.options)
	if fail == nil {
		return false
	}
	s.ops, s.fail = ops, fail
	s.cut()
	return true
}

// cut drops what comes behind the failing op.
func (s *shrinker) cut() { s.ops = s.ops[:min(s.fail.Op+1, len(s.ops))] }

// dropAlike removes all ops of a kind or of a holder at once.
func (s *shrinker) dropAlike() {
	last := func() Op { return s.ops[len(s.ops)-1] }
	for k := range numKinds {
		if k != last().Kind {
			s.try(slices.DeleteFunc(slices.Clone(s.ops), func(o Op) bool { return o.Kind == k }))
		}
	}
	seen := map[int]bool{}
	for _, o := range slices.Clone(s.ops) {
		if l := o.Holder; !o.Kind.global() && !seen[l] && !s.late() {
			seen[l] = true
			s.try(slices.DeleteFunc(slices.Clone(s.ops), func(o Op) bool { return !o.Kind.global() && o.Holder == l }))
		}
	}
}

// dropOps removes ever smaller stretches of ops.
func (s *shrinker) dropOps() {
	for n := max(len(s.ops)/2, 1); n > 0 && !s.late(); n /= 2 {
		for i := len(s.ops) - n; i >= 0 && !s.late(); {
			if s.try(slices.Concat(s.ops[:i], s.ops[min(i+n, len(s.ops)):])) {
				i = min(i, len(s.ops)) - n
			} else {
				i -= n
			}
		}
	}
}

// dropBlocks removes blocks of stores, names of places and removes, and the
// end of queries.
func (s *shrinker) dropBlocks() {
	for i := 0; i < len(s.ops) && !s.late(); i++ {
		for n := max(s.ops[i].blocks()/2, 1); n > 0; n /= 2 {
			for at := s.ops[i].blocks() - n; at >= 0 && !s.late(); at -= n {
				if s.tryOp(i, s.ops[i].without(at, n)); i >= len(s.ops) {
					return
				}
				at = min(at, s.ops[i].blocks())
			}
		}
	}
}

// simplify replaces what is special in an op by what is plain.
func (s *shrinker) simplify() {
	plain := []func(*Op){
		func(o *Op) { o.Root = 0 },
		func(o *Op) { o.Depth = 0 },
		func(o *Op) { o.HasParent, o.Parent = false, 0 },
		func(o *Op) { o.SkipUnknown = false },
		func(o *Op) { o.KeepMeaning, o.SkipUnknown = false, false },
		func(o *Op) { o.Policy = tree.Copies },
		func(o *Op) { o.Shards = min(o.Shards, 1) },
		func(o *Op) { o.Tier = tree.Device },
		func(o *Op) { o.Shard = 0 },
	}
	for i := 0; i < len(s.ops); i++ {
		for _, f := range plain {
			if i >= len(s.ops) {
				return
			}
			o := s.ops[i]
			if f(&o); o.String() != s.ops[i].String() {
				s.tryOp(i, o)
			}
		}
	}
}

func (s *shrinker) tryOp(i int, o Op) bool {
	ops := slices.Clone(s.ops)
	ops[i] = o
	return s.try(ops)
}

// renumber gives names, contents and holders small numbers, if it still fails.
func (s *shrinker) renumber() {
	names, contents, labels := map[uint64]uint64{0: 0}, map[uint64]uint64{}, map[int]int{Nobody: Nobody}
	small := func(m map[uint64]uint64, list []uint64, base uint64) []uint64 {
		out := make([]uint64, len(list))
		for i, x := range list {
			if _, ok := m[x]; !ok {
				m[x] = base + uint64(len(m))
			}
			out[i] = m[x]
		}
		return out
	}
	ops := slices.Clone(s.ops)
	for i := range ops {
		o := &ops[i]
		if o.HasParent {
			o.Parent = small(names, []uint64{o.Parent}, 100)[0]
		}
		o.Names = small(names, o.Names, 100)
		o.Contents = small(contents, o.Contents, 1)
		if _, ok := labels[o.Holder]; !ok && !o.Kind.global() {
			labels[o.Holder] = len(labels)
		}
		if !o.Kind.global() {
			o.Holder = labels[o.Holder]
		}
	}
	s.until = s.until.Add(time.Minute) // this one is worth it
	s.try(ops)
}

// blocks is how many pieces without can take out.
func (o *Op) blocks() int {
	if o.Kind == Query {
		return len(o.Contents)
	}
	return len(o.Names)
}

// without returns o less n blocks from at on.
func (o *Op) without(at, n int) Op {
	c := *o
	end := min(at+n, o.blocks())
	if o.Kind == Query {
		c.Contents = slices.Concat(o.Contents[:at], o.Contents[end:])
		return c
	}
	c.Names = slices.Concat(o.Names[:at], o.Names[end:])
	if o.Kind == Store && len(o.Contents) == len(o.Names)*o.Span {
		c.Contents = slices.Concat(o.Contents[:at*o.Span], o.Contents[end*o.Span:])
	}
	return c
}

// size measures a list, so that shrinking knows when it has come to an end.
func size(ops []Op) (n int) {
	for i := range ops {
		n += 1 + len(ops[i].String())
	}
	return n
}
