package hint

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLearning: observations of a fleet that is not what was configured lead to
// its own coefficients, from a wrong beginning and from none.
func TestLearning(t *testing.T) {
	truth := Coefficients{PerToken: 40e-6, PerPosition: 1.5e-9, Bytes: 131_072, Bandwidth: 3e9, Setup: 5e-3}
	for name, begin := range map[string]Coefficients{"from nothing": {}, "from the wrong configuration": example} {
		t.Run(name, func(t *testing.T) {
			p, l := NewPrefillFit(begin), NewLinkFit(begin)
			if k := Learned(p, l); begin.Known() != k.Known() || k.Confidence != 0 {
				t.Errorf("before the first observation: %+v", k)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for range 300 {
				from := rng.IntN(4000)
				to := from + 1 + rng.IntN(8000)
				load := float64(rng.IntN(3))
				e := truth.Estimate(from, to, load, load)
				noise := 1 + 0.02*rng.NormFloat64()
				if err := p.Observe(from, to, load, e.Recompute*noise); err != nil {
					t.Fatal(err)
				}
				if err := l.Observe(to-from, float64(to-from)*truth.Bytes, load, e.Transfer*noise); err != nil {
					t.Fatal(err)
				}
			}
			k := Learned(p, l)
			for _, s := range [][2]int{{0, 192}, {0, 8192}, {4000, 9000}} {
				got, want := k.Estimate(s[0], s[1], 0, 1), truth.Estimate(s[0], s[1], 0, 1)
				if math.Abs(got.Recompute/want.Recompute-1) > 0.1 || math.Abs(got.Transfer/want.Transfer-1) > 0.1 {
					t.Errorf("%v: %+v, the truth is %+v", s, got, want)
				}
			}
			if k.Confidence < 0.8 || k.Confidence > 1 {
				t.Errorf("confidence %v of 300 observations that agree", k.Confidence)
			}
		})
	}
}

// TestConfidenceFalls: a link that suddenly is another one is not trusted as
// before, and trusted again once it is known.
func TestConfidenceFalls(t *testing.T) {
	l := NewLinkFit(Coefficients{})
	p := NewPrefillFit(Coefficients{})
	observe := func(n int, bandwidth float64) float64 {
		for i := range n {
			tokens := 100 + 37*i%1000
			bytes := float64(tokens) * 1000
			if err := l.Observe(tokens, bytes, 0, 1e-4+bytes/bandwidth); err != nil {
				t.Fatal(err)
			}
			if err := p.Observe(0, tokens, 0, float64(tokens)*1e-5); err != nil {
				t.Fatal(err)
			}
		}
		return Learned(p, l).Confidence
	}
	before := observe(100, 1e9)
	fallen := observe(3, 1e7)
	after := observe(300, 1e7)
	if !(before > 0.8 && fallen < before-0.2 && after > 0.8) {
		t.Errorf("confidence %.2f, then %.2f, then %.2f", before, fallen, after)
	}
}

func TestObservationsAreChecked(t *testing.T) {
	p, l := NewPrefillFit(example), NewLinkFit(example)
	inf, nan := math.Inf(1), math.NaN()
	for name, err := range map[string]error{
		"backwards":         p.Observe(5, 4, 0, 1),
		"nothing":           p.Observe(5, 5, 0, 1),
		"before the prompt": p.Observe(-1, 5, 0, 1),
		"no time":           p.Observe(0, 5, 0, 0),
		"negative time":     p.Observe(0, 5, 0, -1),
		"no number":         p.Observe(0, 5, 0, nan),
		"for ever":          p.Observe(0, 5, 0, inf),
		"negative load":     p.Observe(0, 5, -1, 1),
		"load no number":    p.Observe(0, 5, nan, 1),
		"no tokens":         l.Observe(0, 5, 0, 1),
		"no bytes":          l.Observe(5, 0, 0, 1),
		"bytes no number":   l.Observe(5, nan, 0, 1),
		"transfer no time":  l.Observe(5, 5, 0, 0),
	} {
		if err == nil {
			t.Errorf("%s is taken in", name)
		}
	}
	if k := Learned(p, l); k != example {
		t.Errorf("what was refused changed %+v", k)
	}
}

// TestTheSameForEver: repeated equal observations do not blow the fit up.
func TestTheSameForEver(t *testing.T) {
	p, l := NewPrefillFit(Coefficients{}), NewLinkFit(Coefficients{})
	for range 100_000 {
		if p.Observe(0, 1000, 0, 0.025) != nil || l.Observe(1000, 1e8, 0, 0.01) != nil {
			t.Fatal("refused")
		}
	}
	k := Learned(p, l)
	if e := k.Estimate(0, 1000, 0, 0); math.Abs(e.Recompute-0.025) > 1e-4 || math.Abs(e.Transfer-0.01) > 1e-4 || math.IsNaN(k.Confidence) {
		t.Errorf("%+v of %+v", e, k)
	}
}
