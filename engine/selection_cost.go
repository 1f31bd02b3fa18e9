package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
)

// costBook holds what is known of costs, by model and link. Observations go
// through its lock; decisions read whole sets of coefficients through atomics.
type costBook struct {
	configured []CostCoefficients

	mu       sync.Mutex
	prefills map[string]*hint.PrefillFit // by model
	cells    map[costKey]*costCell
}

type costKey struct{ model, link string }

// costCell are the coefficients of one model on one link.
type costCell struct {
	costKey
	now atomic.Pointer[hint.Coefficients]
	fit *hint.LinkFit // guarded by costBook.mu
}

// coefficients are what a decision gets; nil if nothing is known.
func (c *costCell) coefficients() *hint.Coefficients {
	if k := c.now.Load(); k.Known() {
		return k
	}
	return nil
}

func (b *costBook) init(c []CostCoefficients) {
	b.configured = slices.Clone(c)
	b.prefills, b.cells = map[string]*hint.PrefillFit{}, map[costKey]*costCell{}
}

// begin is the configured entry that names most of a model and link.
func (b *costBook) begin(model, link string) (k hint.Coefficients) {
	best := -1
	for i := range b.configured {
		c := &b.configured[i]
		if c.Model != "" && c.Model != model || c.Link != "" && c.Link != link {
			continue
		}
		names := 0
		if c.Model != "" {
			names += 2
		}
		if c.Link != "" {
			names++
		}
		if names > best {
			best = names
			k = hint.Coefficients{PerToken: c.PerToken, PerPosition: c.PerPosition, Bytes: c.BytesPerToken,
				Bandwidth: c.BytesPerSecond, Setup: c.Setup.Seconds()}
		}
	}
	return k
}

// cell returns the coefficients of a model on a link, which are the same for
// every source that has them.
func (b *costBook) cell(model, link string) *costCell {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := costKey{model, link}
	if c := b.cells[key]; c != nil {
		return c
	}
	k := b.begin(model, link)
	c := &costCell{costKey: key, fit: hint.NewLinkFit(k)}
	c.now.Store(&k)
	b.cells[key] = c
	if p := b.prefills[model]; p != nil {
		b.learnt(c, p)
	}
	return c
}

// prefill returns a model's fit, beginning with what is configured of it.
func (b *costBook) prefill(model string) *hint.PrefillFit {
	p := b.prefills[model]
	if p == nil {
		p = hint.NewPrefillFit(b.begin(model, ""))
		b.prefills[model] = p
	}
	return p
}

// learnt publishes what the fits of a cell say by now.
func (b *costBook) learnt(c *costCell, p *hint.PrefillFit) {
	k := hint.Learned(p, c.fit)
	c.now.Store(&k)
}

// ObservePrefill tells that an engine of a model computed the prompt's tokens
// from … to-1 in took, while its load was backlog (see PeerLoad). Costs learn
// from it. It may be called from any goroutine; it takes a lock that queries do
// not.
func (e *Engine) ObservePrefill(model string, from, to int, backlog float64, took time.Duration) error {
	if model == "" {
		return &FieldError{Field: "model", Value: `""`, Want: "names the model that was observed"}
	}
	b := &e.selection.costs
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.prefills[model]; !known && len(b.prefills) >= maxLearnt {
		return fmt.Errorf("engine: more than %d models are observed", maxLearnt)
	}
	p := b.prefill(model)
	if err := p.Observe(from, to, backlog, took.Seconds()); err != nil {
		return err
	}
	for _, c := range b.cells {
		if c.model == model {
			b.learnt(c, p)
		}
	}
	return nil
}

// ObserveTransfer tells that the blocks of so many tokens, bytes in all, were
// fetched from a (source, rank) in took, while others such fetches were in
// flight there. Costs learn from it. Errors: ErrUnknownSource, ErrUnknownRank,
// or what is wrong with the figures.
func (e *Engine) ObserveTransfer(source string, rank, tokens int, bytes int64, others int, took time.Duration) error {
	p, err := e.peerOf(source, rank)
	if err != nil {
		return err
	}
	b, c := &e.selection.costs, p.cost
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := c.fit.Observe(tokens, float64(bytes), float64(others), took.Seconds()); err != nil {
		return err
	}
	b.learnt(c, b.prefill(c.model))
	return nil
}

// maxLearnt bounds the models that observations may name.
const maxLearnt = 4096
