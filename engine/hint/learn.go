package hint

import (
	"fmt"
	"math"
)

// PrefillFit learns what a model's prefill costs from what engines took, beginning
// with what was configured. It belongs to one goroutine at a time.
type PrefillFit struct{ fit fit }

// LinkFit learns the same of a link's transfers, and how large a token is. It
// belongs to one goroutine at a time.
type LinkFit struct {
	fit   fit
	bytes float64 // of a token, smoothed
}

// Scales of coefficients that nothing is known of yet: a fit works in units of
// them, so that both of its unknowns are about 1.
const (
	scalePerToken    = 25e-6
	scalePerPosition = 1e-9
	scaleBandwidth   = 10e9
	scaleSetup       = 2e-3
)

// NewPrefillFit begins with configured coefficients, zero where none are.
func NewPrefillFit(k Coefficients) *PrefillFit {
	return &PrefillFit{newFit(k.PerToken, scalePerToken, k.PerPosition, scalePerPosition)}
}

// NewLinkFit begins with configured coefficients, zero where none are.
func NewLinkFit(k Coefficients) *LinkFit {
	perByte := 0.0
	if k.Bandwidth > 0 {
		perByte = 1 / k.Bandwidth
	}
	return &LinkFit{newFit(perByte, 1/scaleBandwidth, k.Setup, scaleSetup), k.Bytes}
}

// Observe takes in that a prompt's tokens from … to-1 took seconds to compute
// on an engine with a load factor (0: idle).
func (p *PrefillFit) Observe(from, to int, load, seconds float64) error {
	a, b := float64(from), float64(to)
	if from < 0 || to <= from {
		return fmt.Errorf("hint: tokens %d … %d are no stretch of a prompt; wants 0 ≤ from < to", from, to)
	}
	if err := plausible(load, seconds); err != nil {
		return err
	}
	p.fit.observe((b-a)*(1+load), (b*b-a*a)/2*(1+load), seconds)
	return nil
}

// Observe takes in that so many bytes, the blocks of so many tokens, took
// seconds while load other fetches were under way at the source.
func (t *LinkFit) Observe(tokens int, bytes, load, seconds float64) error {
	if tokens < 1 || !(bytes > 0) || math.IsInf(bytes, 0) {
		return fmt.Errorf("hint: %d tokens of %g bytes are no transfer; both are above 0", tokens, bytes)
	}
	if err := plausible(load, seconds); err != nil {
		return err
	}
	if size := bytes / float64(tokens); t.bytes == 0 {
		t.bytes = size
	} else {
		t.bytes += (size - t.bytes) / 8
	}
	t.fit.observe(bytes*(1+load), 1, seconds)
	return nil
}

func plausible(load, seconds float64) error {
	if !(seconds > 0) || math.IsInf(seconds, 0) {
		return fmt.Errorf("hint: it took %g seconds; wants a time above 0", seconds)
	}
	if !(load >= 0) || math.IsInf(load, 0) {
		return fmt.Errorf("hint: load factor %g; wants 0 or more", load)
	}
	return nil
}

// Learned is what both have learnt so far.
func Learned(p *PrefillFit, t *LinkFit) Coefficients {
	k := Coefficients{Bytes: t.bytes}
	k.PerToken, k.PerPosition = p.fit.get()
	perByte, setup := t.fit.get()
	if perByte > 0 {
		k.Bandwidth = 1 / perByte
	}
	k.Setup = setup
	k.Confidence = min(p.fit.confidence(), t.fit.confidence())
	return k
}

// fit is a recursive least-squares fit of y = θ₀·x₀ + θ₁·x₁ by relative errors,
// which forgets: links and engines change.
type fit struct {
	scale [2]float64
	theta [2]float64 // in units of scale
	p     [2][2]float64
	n     float64 // observations
	miss  float64 // relative error of late, before each observation was taken in
	known bool
}

const (
	forgetting = 0.98
	// trusted and untrusted are how far, in units of scale squared, a first
	// guess may be off.
	trusted, untrusted = 0.25, 100
	// surprise is the relative error from which on a fit takes its coefficients
	// for those of another link or engine, and doubts them doubts times more.
	surprise, doubts = 0.5, 4
	// settled is after how many observations confidence is half of what the
	// error alone would give.
	settled = 8
)

func newFit(a, scaleA, b, scaleB float64) fit {
	f := fit{scale: [2]float64{scaleA, scaleB}}
	guess := [2]float64{a, b}
	for i := range guess {
		f.p[i][i] = untrusted
		if guess[i] > 0 {
			f.scale[i], f.theta[i], f.p[i][i] = guess[i], 1, trusted
			f.known = f.known || i == 0
		}
	}
	return f
}

// observe takes in one observation. Everything is divided by y, so that short
// and long ones count alike.
func (f *fit) observe(x0, x1, y float64) {
	x := [2]float64{x0 * f.scale[0] / y, x1 * f.scale[1] / y}
	miss := 1 - (f.theta[0]*x[0] + f.theta[1]*x[1])
	if f.known {
		f.miss += (math.Abs(miss) - f.miss) / min(f.n+1, settled)
	} else {
		f.miss = 1
	}
	if math.Abs(miss) > surprise {
		f.scaleP(doubts)
	}
	px := [2]float64{f.p[0][0]*x[0] + f.p[0][1]*x[1], f.p[1][0]*x[0] + f.p[1][1]*x[1]}
	gain := 1 / (forgetting + x[0]*px[0] + x[1]*px[1])
	for i := range px {
		f.theta[i] += px[i] * gain * miss
	}
	for i := range px {
		for j := range px {
			f.p[i][j] = (f.p[i][j] - px[i]*px[j]*gain) / forgetting
		}
	}
	// Without new directions forgetting would let it grow for ever.
	limit := 2 * untrusted * max(1, f.theta[0]*f.theta[0], f.theta[1]*f.theta[1])
	if trace := f.p[0][0] + f.p[1][1]; trace > limit {
		f.scaleP(limit / trace)
	}
	f.n++
	f.known = true
}

func (f *fit) scaleP(by float64) {
	for i := range f.p {
		for j := range f.p {
			f.p[i][j] *= by
		}
	}
}

// get returns the coefficients; none is below 0, which noise may make of a small
// one.
func (f *fit) get() (a, b float64) {
	return max(0, f.theta[0]) * f.scale[0], max(0, f.theta[1]) * f.scale[1]
}

// confidence grows with observations and falls with their surprise.
func (f *fit) confidence() float64 {
	return f.n / (f.n + settled) / (1 + f.miss)
}
