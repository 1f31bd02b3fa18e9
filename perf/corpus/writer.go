package corpus

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// Writer writes a corpus as its operations come, a group at a time: a corpus
// may be larger than memory. See NewWriter.
type Writer struct {
	out     *bufio.Writer
	truth   *Truth
	totals  Totals
	sum     uint64 // of the checksums so far
	scratch []byte

	queries, stores, removes []uint64 // parts of the group
	answers, ops             []uint64
}

// NewWriter begins a corpus on out. Close ends it; out stays open.
func NewWriter(out io.Writer, h Header) (*Writer, error) {
	head, err := h.encode()
	if err != nil {
		return nil, err
	}
	w := &Writer{out: bufio.NewWriterSize(out, 1<<18), truth: NewTruth(h)}
	w.put(head)
	w.sum = checksum(w.sum, head[31:])
	return w, nil
}

// Add appends an operation. It finds the right answer of a query and the class
// of a store itself, and refuses an operation that breaks a promise of the
// format. It keeps nothing of o.
func (w *Writer) Add(o *Op) error {
	if o.Nanos < w.totals.Nanos {
		return fmt.Errorf("corpus: operation at %d ns comes behind one at %d ns", o.Nanos, w.totals.Nanos)
	}
	answer, class, err := w.truth.Play(o)
	if err != nil {
		return err
	}
	w.totals.count(o)
	at := 0
	switch o.Kind {
	case Query:
		at = len(w.queries)
		w.queries = append(w.queries, o.Words...)
		w.answers = append(w.answers, answer.Any, answer.Device, uint64(answer.Holders)|uint64(answer.Deepest)<<32)
	case Store:
		at = len(w.stores) / 2
		w.stores = append(w.stores, o.Words...)
	case Remove:
		at = len(w.removes)
		w.removes = append(w.removes, o.Words...)
	}
	flags := uint64(class) << 1
	if o.HasParent {
		flags |= 1
	}
	w.ops = append(w.ops, o.Nanos,
		uint64(uint32(o.Holder))|uint64(o.Kind)<<32|uint64(o.Tier)<<40|flags<<48,
		o.Parent, uint64(uint32(at))|uint64(uint32(o.Blocks()))<<32)
	if len(w.ops) >= GroupOps*opWords || len(w.queries)+len(w.stores)+len(w.removes) > groupWords {
		return w.group()
	}
	return nil
}

// group writes the group and begins the next one.
func (w *Writer) group() error {
	if len(w.ops) == 0 {
		return nil
	}
	head := []uint64{magicGroup, uint64(len(w.queries)), uint64(len(w.stores) / 2), uint64(len(w.removes)),
		uint64(len(w.answers) / answerWords), uint64(len(w.ops) / opWords), 0, 0}
	parts := [][]uint64{w.queries, w.stores, w.removes, w.answers, w.ops}
	sum := checksum(0, head[:7])
	for _, p := range parts {
		sum = checksum(sum, p)
	}
	head[7] = sum
	w.put(head)
	for _, p := range parts {
		w.put(p)
	}
	w.sum = checksum(w.sum, head[7:])
	w.totals.Groups++
	w.queries, w.stores, w.removes = w.queries[:0], w.stores[:0], w.removes[:0]
	w.answers, w.ops = w.answers[:0], w.ops[:0]
	return w.out.Flush()
}

// Close ends the corpus and says what is in it.
func (w *Writer) Close() (Totals, error) {
	if err := w.group(); err != nil {
		return Totals{}, err
	}
	w.totals.Peak, w.totals.Left = w.truth.peak, w.truth.held
	w.totals.Checksum = w.sum
	w.put(w.totals.encode())
	return w.totals, w.out.Flush()
}

// put writes words. The first error stays with the buffered writer and comes
// out of its Flush.
func (w *Writer) put(words []uint64) {
	for len(words) > 0 {
		n := min(len(words), 4096)
		w.scratch = w.scratch[:0]
		for _, v := range words[:n] {
			w.scratch = binary.LittleEndian.AppendUint64(w.scratch, v)
		}
		_, _ = w.out.Write(w.scratch)
		words = words[n:]
	}
}
