package engine

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/content"
	"github.com/cairn-kv/cairn/tree/shard"
)

// DumpVersion is the version of Dump's text. Texts of one version can be
// compared byte for byte.
const DumpVersion = 1

// ErrNoDump says that an index of Options.NewIndex cannot tell what it holds.
var ErrNoDump = errors.New("engine: the index cannot tell what it holds: it is no tree.Dumper")

// tierNames are the tiers' words in a dump.
var tierNames = [tree.NumTiers]string{"device", "host", "disk", "shared", "unknown"}

// dumped is one block in a dump, as small as sorting it allows.
type dumped struct {
	holder, root        int32 // in the order of the text; root -1: waiting
	end                 int32
	tier, shard         uint8
	span, copies        uint32
	chain, name, parent uint64
}

// Dump writes who holds what, as text: one line for every holder, every stream
// and every block, sorted. It depends on what was applied and on nothing else:
// not on the order in which streams took turns, on tables, or on time. So a
// recorded history that is played again gives the same bytes.
//
//	cairn dump 1 additive-v1-salt0
//	holder w1 0 worker model=m policy=copies tp=1 blocks=2 waiting=1
//	stream w1 0 tp=0 applied=41
//	block w1 0 worker unit=4+0 end=4 chain=cb38e4d7fb2dca5c name=000000000000000a device tp=0 span=1 copies=1
//	waits w1 0 worker name=000000000000000d parent=000000000000000c chain=06b748f1777d599c device tp=0 span=1 copies=1
//
// unit is what the index steps by, with the look-ahead behind the plus; end is
// where the block ends, in tokens; chain is the chain hash from the root to
// there, name the engine's. No token stands in it. A holder that is hidden from
// answers is there too. Words that are not plain are quoted.
//
// Each index shard is looked at between two records, so that a source's lines
// belong together; its writer stands still meanwhile, for about a second per
// ten million blocks, and queries do not. ctx bounds the wait for it.
func (e *Engine) Dump(ctx context.Context, w io.Writer) error {
	v := e.view.Load()
	if v == nil {
		return ErrClosed
	}
	var holders []*holder
	var feeds []*feed
	for _, m := range v.models {
		holders = append(holders, m.holders...)
		for _, s := range m.sources {
			feeds = append(feeds, s.streams()...)
		}
	}
	slices.SortFunc(holders, func(a, b *holder) int {
		return cmp.Or(cmp.Compare(a.src.spec.ID, b.src.spec.ID), cmp.Compare(a.rank, b.rank), cmp.Compare(a.domain, b.domain))
	})
	slices.SortFunc(feeds, func(a, b *feed) int {
		return cmp.Or(cmp.Compare(a.src.spec.ID, b.src.spec.ID), cmp.Compare(a.rank, b.rank), cmp.Compare(a.tp, b.tp))
	})
	d := dumper{holders: holders, feeds: feeds, applied: make([]shard.Position, len(feeds))}
	for i, sh := range e.shards {
		if err := d.collect(ctx, i, sh); err != nil {
			return err
		}
	}
	d.arrange(e)
	out := bufio.NewWriterSize(w, 64<<10)
	d.write(out)
	return out.Flush()
}

// dumper is a dump under way.
type dumper struct {
	holders []*holder
	feeds   []*feed
	applied []shard.Position // by feed
	rows    []dumped
	units   []unitKey // by root, in the order of the text
}

// collect takes what one shard holds, on its writer's goroutine.
func (d *dumper) collect(ctx context.Context, i int, sh *index) error {
	at := map[tree.Holder]int32{}
	for k, h := range d.holders {
		if h.src.shard == i {
			at[h.id] = int32(k)
		}
	}
	var failed error
	err := sh.writer.Do(ctx, func(w tree.Writer) {
		from, ok := w.(tree.Dumper)
		if !ok {
			failed = ErrNoDump
			return
		}
		for k, f := range d.feeds {
			if f.src.shard == i {
				d.applied[k] = f.applied()
			}
		}
		from.Dump(content.Chain, func(b tree.Block) {
			k, ok := at[b.Holder]
			if !ok {
				return // younger than the view, or on its way out
			}
			row := dumped{holder: k, root: int32(b.Root), end: int32(b.End), tier: uint8(b.Tier), shard: b.Shard,
				span: uint32(b.Span), copies: uint32(b.Copies), chain: b.Chain, name: b.Name, parent: b.Parent}
			if b.Waiting {
				row.root = -1
			}
			d.rows = append(d.rows, row)
		})
	})
	if errors.Is(err, shard.ErrClosed) {
		return ErrClosed
	}
	return errors.Join(err, failed)
}

// arrange puts the rows into the order of the text. The index numbers tries in
// the order in which they were met, which must not show.
func (d *dumper) arrange(e *Engine) {
	e.control.Lock()
	key := make([]rootKey, len(e.roots))
	for k, r := range e.roots {
		key[r] = k
	}
	e.control.Unlock()
	order := make([]int32, len(key))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := key[a], key[b]
		return cmp.Or(cmp.Compare(x.unit, y.unit), cmp.Compare(x.lookahead, y.lookahead), cmp.Compare(x.model, y.model))
	})
	place := make([]int32, len(key))
	for i, r := range order {
		place[r] = int32(i)
		d.units = append(d.units, key[r].unitKey)
	}
	for i := range d.rows {
		if r := &d.rows[i]; r.root >= 0 {
			r.root = place[r.root]
		}
	}
	slices.SortFunc(d.rows, func(a, b dumped) int {
		return cmp.Or(
			cmp.Compare(a.holder, b.holder),
			cmp.Compare(uint32(a.root), uint32(b.root)), // those that wait stand last
			cmp.Compare(a.end, b.end), cmp.Compare(a.chain, b.chain), cmp.Compare(a.name, b.name),
			cmp.Compare(a.tier, b.tier), cmp.Compare(a.shard, b.shard),
			cmp.Compare(a.parent, b.parent), cmp.Compare(a.span, b.span))
	})
}

func (d *dumper) write(out *bufio.Writer) {
	fmt.Fprintf(out, "cairn dump %d %s\n", DumpVersion, content.Scheme)
	told := map[*source]bool{}
	for i, n := 0, 0; i < len(d.holders); i++ {
		h := d.holders[i]
		end := n
		waiting := 0
		for ; end < len(d.rows) && int(d.rows[end].holder) == i; end++ {
			if d.rows[end].root < 0 {
				waiting++
			}
		}
		policy := "copies"
		if h.domain == hint.CacheOwner || h.src.spec.Policy == tree.Set {
			policy = "set"
		}
		who := word(h.src.spec.ID) + " " + strconv.Itoa(h.rank)
		fmt.Fprintf(out, "holder %s %s model=%s policy=%s tp=%d blocks=%d waiting=%d\n",
			who, h.domain, word(h.src.spec.Model), policy, h.src.tp(), end-n-waiting, waiting)
		// The streams of a source stand behind its first holder's line.
		if !told[h.src] {
			told[h.src] = true
			d.streams(out, h.src)
		}
		for ; n < end; n++ {
			d.row(out, who, h.domain, &d.rows[n])
		}
	}
}

// streams writes the lines of a source's streams.
func (d *dumper) streams(out *bufio.Writer, src *source) {
	at, _ := slices.BinarySearchFunc(d.feeds, src.spec.ID, func(f *feed, id string) int { return cmp.Compare(f.src.spec.ID, id) })
	for ; at < len(d.feeds) && d.feeds[at].src.spec.ID == src.spec.ID; at++ {
		f := d.feeds[at]
		if f.src != src {
			continue
		}
		applied := "none"
		if p := d.applied[at]; p.Any {
			applied = strconv.FormatUint(p.Seq, 10)
		}
		fmt.Fprintf(out, "stream %s %d tp=%d applied=%s\n", word(src.spec.ID), f.rank, f.tp, applied)
	}
}

// row writes the line of one block.
func (d *dumper) row(out *bufio.Writer, who string, domain Domain, r *dumped) {
	if r.root < 0 {
		fmt.Fprintf(out, "waits %s %s name=%016x parent=%016x chain=%016x", who, domain, r.name, r.parent, r.chain)
	} else {
		u := d.units[r.root]
		fmt.Fprintf(out, "block %s %s unit=%d+%d end=%d chain=%016x name=%016x", who, domain, u.unit, u.lookahead, int(r.end)*u.unit, r.chain, r.name)
	}
	fmt.Fprintf(out, " %s tp=%d span=%d copies=%d\n", tierNames[r.tier], r.shard, r.span, r.copies)
}

// word is a name in a dump: as it is if nobody can take it for two words.
func word(s string) string {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7f {
			return strconv.Quote(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}
