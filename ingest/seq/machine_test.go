package seq

import (
	"math/rand/v2"
	"testing"
)

// step is one call and what must come of it.
type step struct {
	do  string // live, replay, skip, reset
	seq uint64
	Verdict
	next uint64 // afterwards
}

func TestMachine(t *testing.T) {
	const top = Never - 1
	apply := func(n uint64) step { return step{"live", n, Verdict{Kind: Apply}, n + 1} }
	for _, c := range []struct {
		name  string
		first uint64
		steps []step
	}{
		{"in order from 0", 0, []step{apply(0), apply(1), apply(2)}},
		{"in order from 1", 1, []step{apply(1), apply(2)}},
		{"below the start", 1, []step{apply(0), apply(1)}},
		{"equal to the newest", 0, []step{apply(0), apply(1), {"live", 1, Verdict{Kind: Duplicate}, 2}, apply(2)}},
		{"first above the start", 0, []step{{"live", 5, Verdict{Gap, 5}, 0}}},
		{"first above a start of 1", 1, []step{{"live", 2, Verdict{Gap, 1}, 1}}},
		{"forward step", 0, []step{apply(0), {"live", 4, Verdict{Gap, 3}, 1}}},
		{"gap repaired by replay", 0, []step{
			apply(0), {"live", 3, Verdict{Gap, 2}, 1}, {"live", 4, Verdict{Gap, 3}, 1},
			{"replay", 1, Verdict{Kind: Apply}, 2}, {"replay", 2, Verdict{Kind: Apply}, 3},
			{"replay", 3, Verdict{Kind: Apply}, 4}, // the replay has what is held, too
			{"replay", 3, Verdict{Kind: Duplicate}, 4}, {"replay", 4, Verdict{Kind: Apply}, 5},
			apply(5),
		}},
		{"live messages behind a replay are no restart", 0, []step{
			apply(0), {"live", 2, Verdict{Gap, 1}, 1},
			{"replay", 1, Verdict{Kind: Apply}, 2}, {"replay", 2, Verdict{Kind: Apply}, 3},
			{"replay", 3, Verdict{Kind: Apply}, 4}, {"replay", 4, Verdict{Kind: Apply}, 5},
			{"live", 3, Verdict{Kind: Duplicate}, 5}, {"live", 4, Verdict{Kind: Duplicate}, 5}, apply(5),
		}},
		{"replies out of order", 0, []step{
			{"live", 7, Verdict{Gap, 7}, 0}, {"skip", 5, Verdict{}, 6},
			{"replay", 6, Verdict{Kind: Apply}, 7}, {"replay", 5, Verdict{Kind: Duplicate}, 7},
		}},
		{"replay with a hole", 0, []step{
			{"live", 3, Verdict{Gap, 3}, 0}, {"replay", 2, Verdict{Gap, 2}, 0}, {"skip", 1, Verdict{}, 2},
			{"replay", 2, Verdict{Kind: Apply}, 3}, {"replay", 3, Verdict{Kind: Apply}, 4},
		}},
		{"restart at 0", 0, []step{apply(0), apply(1), apply(2), {"live", 0, Verdict{Kind: Restart}, 1}, apply(1)}},
		{"restart above 0", 0, []step{
			apply(0), apply(1), apply(2), apply(3), {"live", 2, Verdict{Restart, 2}, 0},
			{"live", 3, Verdict{Gap, 3}, 0},
		}},
		{"restart during a gap", 0, []step{apply(0), {"live", 9, Verdict{Gap, 8}, 1}, {"live", 0, Verdict{Kind: Restart}, 1}}},
		{"restart at the start of 1", 1, []step{apply(1), apply(2), {"live", 1, Verdict{Kind: Restart}, 2}}},
		{"the end mark", 0, []step{
			{"live", Never, Verdict{Kind: Refused}, 0}, apply(0),
			{"live", Never, Verdict{Kind: Refused}, 1}, {"replay", Never, Verdict{Kind: Refused}, 1},
			{"skip", Never, Verdict{}, 1}, apply(1),
		}},
		{"up to the top", 0, []step{
			{"live", top, Verdict{Gap, top}, 0}, {"skip", top - 1, Verdict{}, top}, {"replay", top, Verdict{Kind: Apply}, Never},
			{"live", top, Verdict{Kind: Duplicate}, Never}, {"live", 1 << 63, Verdict{Restart, 1 << 63}, 0},
		}},
		{"above 2^63 is large, not negative", 0, []step{
			{"skip", 1<<63 - 1, Verdict{}, 1 << 63}, apply(1 << 63), apply(1<<63 + 1),
		}},
		{"skip never moves back", 0, []step{apply(0), apply(1), {"skip", 0, Verdict{}, 2}, apply(2)}},
		{"the last number again on a new connection", 0, []step{
			apply(0), apply(1), {"down", 0, Verdict{}, 2}, {"first", 1, Verdict{Restart, 1}, 0},
		}},
		{"the last number again, where it is the start", 0, []step{
			apply(0), {"down", 0, Verdict{}, 1}, {"first", 0, Verdict{Kind: Restart}, 1}, apply(1),
		}},
		{"on and on over connections", 0, []step{
			apply(0), {"down", 0, Verdict{}, 1}, {"first", 1, Verdict{Kind: Apply}, 2}, {"down", 0, Verdict{}, 2}, {"first", 5, Verdict{Gap, 3}, 2},
		}},
		{"held before, and the same on the next connection", 0, []step{
			apply(0), {"live", 9, Verdict{Gap, 8}, 1}, {"down", 0, Verdict{}, 1}, {"first", 9, Verdict{Restart, 9}, 0},
		}},
		{"what the replay brought does not come on the next connection", 0, []step{
			apply(0), {"live", 2, Verdict{Gap, 1}, 1},
			{"replay", 1, Verdict{Kind: Apply}, 2}, {"replay", 2, Verdict{Kind: Apply}, 3}, {"replay", 3, Verdict{Kind: Apply}, 4},
			{"down", 0, Verdict{}, 4}, {"first", 3, Verdict{Restart, 3}, 0},
		}},
		{"what a replay of the same connection brought may come behind it", 0, []step{
			apply(0), {"down", 0, Verdict{}, 1},
			{"replay", 1, Verdict{Kind: Apply}, 2}, {"replay", 2, Verdict{Kind: Apply}, 3},
			{"first", 1, Verdict{Kind: Duplicate}, 3}, {"live", 2, Verdict{Kind: Duplicate}, 3}, apply(3),
		}},
		{"the end mark is first", 0, []step{{"first", Never, Verdict{Kind: Refused}, 0}, apply(0)}},
		{"known anew", 0, []step{
			apply(0), apply(1), {"reset", 0, Verdict{}, 0}, {"heard", 5, Verdict{}, 0},
			{"replay", 0, Verdict{Kind: Apply}, 1}, {"live", 4, Verdict{Restart, 4}, 0},
		}},
		{"reset keeps the start", 1, []step{apply(1), apply(2), {"reset", 0, Verdict{}, 1}, apply(1)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Machine{First: c.first}
			for i, s := range c.steps {
				var got Verdict
				switch s.do {
				case "live":
					got = m.Observe(s.seq)
				case "replay":
					got = m.Replayed(s.seq)
				case "first":
					got = m.ObserveFirst(s.seq)
				case "down":
					m.Disconnected()
				case "heard":
					m.Heard(s.seq)
				case "skip":
					m.Skip(s.seq)
				case "reset":
					m.Reset()
				}
				if got != s.Verdict {
					t.Fatalf("step %d, %s %d: %v, missing %d, want %v, missing %d", i, s.do, s.seq, got.Kind, got.Missing, s.Kind, s.Missing)
				}
				if n := m.Next(); n != s.next {
					t.Fatalf("step %d, %s %d: next %d, want %d", i, s.do, s.seq, n, s.next)
				}
			}
		})
	}
}

// TestAgainstModel plays random streams against a model that remembers every
// number instead of two.
func TestAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var seen [NumKinds]int
	for range 2000 {
		program := make([]byte, 81)
		for i := range program {
			program[i] = byte(rng.Uint32())
		}
		againstModel(t, program, &seen)
	}
	for k := Apply; k < Refused; k++ {
		if seen[k] == 0 {
			t.Errorf("no %v in all these streams", k)
		}
	}
}

// FuzzMachine plays any stream against it.
func FuzzMachine(f *testing.F) {
	f.Add([]byte("\x00\x00\x80\x00\x80\x01\x05\x07\x00"))
	f.Add([]byte("\x01\x00\x80\x00\x05\x06\x03\x07\x02\x09\x05\x00\x01"))
	f.Fuzz(func(t *testing.T, program []byte) {
		var seen [NumKinds]int
		againstModel(t, program, &seen)
	})
}

// againstModel plays a program: the first number there is, then two bytes a
// call, which and with what number.
func againstModel(t *testing.T, program []byte, seen *[NumKinds]int) {
	t.Helper()
	if len(program) == 0 {
		return
	}
	first := uint64(program[0] % 2)
	m := Machine{First: first}
	dealt := map[uint64]bool{} // by the model
	top := first               // one above the largest of them
	deal := func(n uint64) {
		dealt[n] = true
		top = max(top, n+1)
	}
	next := func() uint64 {
		if len(dealt) == 0 {
			return first
		}
		return top
	}
	judge := func(n uint64) Verdict {
		switch want := next(); {
		case len(dealt) > 0 && n < want:
			return Verdict{Kind: Duplicate}
		case n > want:
			return Verdict{Gap, n - want}
		}
		deal(n)
		return Verdict{Kind: Apply}
	}
	var live uint64
	var any bool
	for p := program[1:]; len(p) >= 2; p = p[2:] {
		op, n := p[0]%10, uint64(p[1]%12)
		if p[1] >= 128 {
			n = next()
		}
		var got, want Verdict
		switch {
		case op < 6:
			got = m.Observe(n)
			if any && n < live {
				clear(dealt)
				top = first
				want = judge(n)
				want.Kind = Restart
			} else {
				want = judge(n)
			}
			live, any = n, true
		case op < 9:
			got, want = m.Replayed(n), judge(n)
		default:
			m.Skip(n)
			deal(n)
		}
		if got != want || m.Next() != next() {
			t.Fatalf("program %q, %d: got %v %d, next %d; want %v %d, next %d", program, n, got.Kind, got.Missing, m.Next(), want.Kind, want.Missing, next())
		}
		seen[got.Kind]++
	}
}

func TestKindNames(t *testing.T) {
	if Gap.String() != "gap" || NumKinds.String() != "invalid" {
		t.Error(Gap, NumKinds)
	}
}
