package differ

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

// traceBlock is the tokens of one unit in printed traces.
const traceBlock = 4

var media = [tree.NumTiers]string{"GPU", "CPU", "DISK", "SHARED", "UNKNOWN"}

type trace struct {
	ID     string               `json:"id"`
	Title  string               `json:"title"`
	Why    string               `json:"why"`
	Block  int                  `json:"block"`
	Policy string               `json:"policy"`
	Ops    [][2]json.RawMessage `json:"ops"`
}

type traceOp struct {
	Src    string            `json:"src"`
	Rank   int               `json:"rank,omitempty"`
	Hashes []json.RawMessage `json:"hashes"`
	Parent json.RawMessage   `json:"parent"`
	Tokens []int             `json:"tokens"`
	Bs     *int              `json:"bs,omitempty"`
	Medium string            `json:"medium,omitempty"`
	Group  int               `json:"group,omitempty"`
	Kind   string            `json:"kind,omitempty"`
	Model  string            `json:"model,omitempty"`
	Lora   string            `json:"lora,omitempty"`
	LoraID int               `json:"lora_id,omitempty"`
	Salt   string            `json:"salt,omitempty"`
	Mm     []*string         `json:"mm,omitempty"`
	Expect map[string][2]int `json:"expect"`
	N      int               `json:"n"`
	Count  int               `json:"resident"`
}

// RunTrace plays one line of cases/index.jsonl on an index. Token blocks,
// adapters, salts and keys become made-up content ids; what decoding judges
// (sizes, sparse groups) is judged here.
func RunTrace(ix tree.Interface, line []byte) error {
	var tr trace
	if err := json.Unmarshal(line, &tr); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	p := &tracePlayer{
		index: ix, reader: ix.NewReader(), unit: tr.Block, block: tr.Block, set: tr.Policy == "set",
		holders: map[string]tree.Holder{}, ids: map[string]uint64{},
	}
	ops := make([]traceOp, len(tr.Ops))
	for i := range tr.Ops {
		if err := json.Unmarshal(tr.Ops[i][1], &ops[i]); err != nil {
			return fmt.Errorf("trace %s, op %d: %w", tr.ID, i, err)
		}
		if s := size0(&ops[i]); s > 0 && string(tr.Ops[i][0]) == `"store"` {
			p.unit = gcd(p.unit, s)
		}
	}
	for i := range ops {
		if err := p.play(string(tr.Ops[i][0]), &ops[i]); err != nil {
			return fmt.Errorf("trace %s (%s), op %d: %w", tr.ID, tr.Title, i, err)
		}
	}
	for _, h := range p.holders {
		ix.Drop(h)
	}
	return nil
}

type tracePlayer struct {
	index       tree.Interface
	reader      tree.Reader
	unit, block int // tokens of an index position, and of the trace's figures
	set         bool
	holders     map[string]tree.Holder // by source/rank
	ids         map[string]uint64      // made-up ids of contents and roots
	rejected    int
}

func (p *tracePlayer) play(kind string, o *traceOp) error {
	names := make([]uint64, len(o.Hashes))
	for i, h := range o.Hashes {
		var err error
		if names[i], err = traceHash(h); err != nil {
			return err
		}
	}
	switch kind {
	case `"store"`:
		return p.store(o, names)
	case `"remove"`:
		if o.Group == 0 {
			p.index.Remove(p.owner(o), names)
		}
	case `"clear"`:
		p.index.Clear(p.owner(o).Holder)
	case `"drop"`:
		for key, h := range p.holders {
			if strings.HasPrefix(key, o.Src+"/") {
				p.index.Drop(h)
				delete(p.holders, key)
			}
		}
	case `"query"`:
		return p.query(o)
	case `"count"`:
		if n := p.index.Stats().Residencies; n != o.Count {
			return fmt.Errorf("%d residencies, want %d", n, o.Count)
		}
	case `"rejected"`:
		if p.rejected != o.N {
			return fmt.Errorf("%d events rejected, want %d", p.rejected, o.N)
		}
	default:
		return fmt.Errorf("op %s is not one of store, remove, clear, drop, query, count, rejected", kind)
	}
	return nil
}

func (p *tracePlayer) store(o *traceOp, names []uint64) error {
	size := size0(o)
	switch {
	case len(names) == 0 || o.Group != 0:
		return nil
	case len(o.Tokens) == 0 && size == 0:
		p.index.Place(p.owner(o), names)
		return nil
	case size == 0 || len(o.Tokens) != size*len(names):
		p.rejected++
		return nil
	}
	s := tree.Store{Root: p.root(o.Model), Span: size / p.unit}
	if len(o.Parent) > 0 && string(o.Parent) != "null" {
		parent, err := traceHash(o.Parent)
		if err != nil {
			return err
		}
		s.HasParent, s.Parent = true, parent
	}
	for i, name := range names {
		s.Pairs = append(s.Pairs, name)
		s.Pairs = append(s.Pairs, p.contents(o, i*size, size, size, !s.HasParent)...)
	}
	if p.index.Store(p.owner(o), &s).Reason != tree.Accepted {
		p.rejected++
	}
	return nil
}

// contents makes content ids for n tokens from at on. first says that the
// event begins a chain; each of its mm keys belongs to keyed tokens.
func (p *tracePlayer) contents(o *traceOp, at, n, keyed int, first bool) (ids []uint64) {
	for ; n >= p.unit; at, n = at+p.unit, n-p.unit {
		what := fmt.Sprint("content ", o.Tokens[at:at+p.unit])
		if first && at == 0 && o.Lora+o.Salt != "" {
			what += fmt.Sprintf(" adapter %q salt %q", o.Lora, o.Salt)
		}
		if k := at / keyed; k < len(o.Mm) && o.Mm[k] != nil {
			what += " key " + *o.Mm[k]
		}
		ids = append(ids, p.id(what))
	}
	return ids
}

func (p *tracePlayer) query(o *traceOp) error {
	got := map[tree.Holder][2]int{}
	for _, d := range p.reader.Match(p.root(o.Model), p.contents(o, 0, len(o.Tokens), p.block, true)) {
		got[d.Holder] = [2]int{
			int(d.Units[tree.ViewDevice]) * p.unit / p.block,
			int(d.Units[tree.ViewAny]) * p.unit / p.block,
		}
	}
	for key, h := range p.holders {
		if got[h] != o.Expect[key] {
			return fmt.Errorf("%s has %v, want %v", key, got[h], o.Expect[key])
		}
	}
	for key := range o.Expect {
		if _, ok := p.holders[key]; !ok {
			return fmt.Errorf("%s is expected but stored nothing", key)
		}
	}
	return nil
}

func (p *tracePlayer) owner(o *traceOp) tree.Owner {
	key := fmt.Sprintf("%s/%d", o.Src, o.Rank)
	if _, ok := p.holders[key]; !ok {
		policy := tree.Copies
		if p.set {
			policy = tree.Set
		}
		h, err := p.index.AddHolder(policy, 1)
		if err != nil {
			panic(err) // 1 shard is legal
		}
		p.holders[key] = h
	}
	tier := tree.Unknown
	for t, m := range media {
		if o.Medium == m || o.Medium == "" && t == int(tree.Device) {
			tier = tree.Tier(t)
		}
	}
	return tree.Owner{Holder: p.holders[key], Tier: tier}
}

func (p *tracePlayer) root(name string) tree.Root { return tree.Root(p.id("root " + name)) }

func (p *tracePlayer) id(what string) uint64 {
	if _, ok := p.ids[what]; !ok {
		p.ids[what] = uint64(len(p.ids))
	}
	return p.ids[what]
}

func size0(o *traceOp) int {
	if o.Bs != nil {
		return *o.Bs
	}
	return traceBlock
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// traceHash reads a signed or unsigned integer, or the hex of a bin hash,
// whose last eight bytes count.
func traceHash(raw json.RawMessage) (uint64, error) {
	text := string(raw)
	if strings.HasPrefix(text, `"`) {
		b, err := hex.DecodeString(strings.Trim(text, `"`))
		if err != nil {
			return 0, fmt.Errorf("hash %s: %w", text, err)
		}
		var v uint64
		for _, x := range b[max(0, len(b)-8):] {
			v = v<<8 | uint64(x)
		}
		return v, nil
	}
	if strings.HasPrefix(text, "-") {
		v, err := strconv.ParseInt(text, 10, 64)
		return uint64(v), err
	}
	return strconv.ParseUint(text, 10, 64)
}

// Trace prints ops as a line in the format of cases/index.jsonl, with the
// model's answers as expectations. ok is false if the format cannot say it:
// TP shards, spans, hiding, kept meanings or two policies.
func Trace(id string, ops []Op) (line string, ok bool) {
	w := traceWriter{model: model.New(), labels: map[int]tree.Holder{}, contents: map[uint64]int{}}
	w.reader = w.model.NewReader()
	out := trace{ID: id, Title: "found by the differential test", Why: "minimal", Block: traceBlock, Policy: "copies", Ops: [][2]json.RawMessage{}}
	policies := map[tree.Policy]bool{}
	for i := range ops {
		o := &ops[i]
		if o.Kind == Add {
			policies[o.Policy] = true
			if o.Policy == tree.Set {
				out.Policy = "set"
			}
		}
		if !w.write(&out, o) {
			return "", false
		}
	}
	if len(policies) > 1 {
		return "", false
	}
	b, err := json.Marshal(out)
	return string(b), err == nil
}

type traceWriter struct {
	model    *model.Model
	reader   tree.Reader
	labels   map[int]tree.Holder
	contents map[uint64]int // content → number, its tokens follow from it
	rejected int
}

func (w *traceWriter) write(out *trace, o *Op) bool {
	src := fmt.Sprintf("w%d", o.Holder)
	h, known := w.labels[o.Holder]
	hashes := []uint64{}
	hashes = append(hashes, o.Names...)
	emit := func(kind string, fields map[string]any) {
		name, _ := json.Marshal(kind)
		arg, _ := json.Marshal(fields)
		out.Ops = append(out.Ops, [2]json.RawMessage{name, arg})
	}
	owner := tree.Owner{Holder: h, Tier: o.Tier, Shard: o.Shard}
	switch o.Kind {
	case Add:
		if o.Shards != 1 || known {
			return false
		}
		h, err := w.model.AddHolder(o.Policy, 1)
		w.labels[o.Holder] = h
		return err == nil
	case Query:
		return w.query(emit, o)
	case Step:
		return true
	}
	if !known || o.Tier >= tree.NumTiers || o.Shard != 0 {
		return false
	}
	switch o.Kind {
	case Store:
		if o.Span != 1 || o.KeepMeaning || len(o.Names) == 0 || len(o.Contents) != len(o.Names) {
			return false
		}
		var parent any
		if o.HasParent {
			parent = o.Parent
		}
		fields := map[string]any{"src": src, "hashes": hashes, "parent": parent,
			"tokens": w.tokens(o.Contents), "medium": media[o.Tier], "model": rootName(o.Root)}
		s := tree.Store{Root: o.Root, HasParent: o.HasParent, Parent: o.Parent, Span: 1, Pairs: o.pairs()}
		if w.model.Store(owner, &s).Reason != tree.Accepted {
			w.rejected++
			emit("store", fields)
			emit("rejected", map[string]any{"n": w.rejected})
			return true
		}
		emit("store", fields)
	case Place:
		w.model.Place(owner, o.Names)
		emit("store", map[string]any{"src": src, "hashes": hashes, "parent": nil, "tokens": []int{}, "bs": 0, "medium": media[o.Tier]})
	case Remove:
		w.model.Remove(owner, o.Names)
		emit("remove", map[string]any{"src": src, "hashes": hashes, "medium": media[o.Tier]})
	case Clear:
		w.model.Clear(h)
		emit("clear", map[string]any{"src": src, "rank": 0})
	case Drop:
		w.model.Drop(h)
		delete(w.labels, o.Holder)
		emit("drop", map[string]any{"src": src})
	default:
		return false
	}
	return true
}

func (w *traceWriter) query(emit func(string, map[string]any), o *Op) bool {
	expect := map[string][2]uint32{}
	for _, d := range w.reader.Match(o.Root, o.Contents) {
		for l, h := range w.labels {
			if h == d.Holder {
				expect[fmt.Sprintf("w%d/0", l)] = [2]uint32{d.Units[tree.ViewDevice], d.Units[tree.ViewAny]}
			}
		}
	}
	emit("query", map[string]any{"tokens": w.tokens(o.Contents), "model": rootName(o.Root), "expect": expect})
	emit("count", map[string]any{"resident": w.model.Stats().Residencies})
	return true
}

// tokens writes each content as traceBlock tokens of its own.
func (w *traceWriter) tokens(contents []uint64) []int {
	list := []int{}
	for _, c := range contents {
		if _, ok := w.contents[c]; !ok {
			w.contents[c] = len(w.contents)
		}
		for k := range traceBlock {
			list = append(list, w.contents[c]*traceBlock+k+1)
		}
	}
	return list
}

func rootName(r tree.Root) string { return fmt.Sprintf("m%d", r) }
