package corpus

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Reader reads a corpus group by group, checking it as it goes.
type Reader struct {
	// Header is there from the start, Totals once Next has returned io.EOF.
	Header Header
	Totals Totals

	in     *bufio.Reader
	buf    []byte
	counts Totals
	sum    uint64
}

// Group is a stretch of a corpus: operations, and the answers of its queries in
// their order.
type Group struct {
	Ops     []Op
	Answers []Answer
}

// NewReader reads the header of a corpus.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 1<<18)}
	head, err := r.words(headerWords)
	if err != nil {
		return nil, err
	}
	if r.Header, err = decodeHeader(head); err != nil {
		return nil, err
	}
	r.sum = checksum(r.sum, head[31:])
	return r, nil
}

// words reads n words into memory of their own.
func (r *Reader) words(n int) ([]uint64, error) {
	words := make([]uint64, 0, min(n, 1<<16))
	for len(words) < n {
		k := min(n-len(words), 4096)
		if cap(r.buf) < 8*k {
			r.buf = make([]byte, 8*4096)
		}
		buf := r.buf[:8*k]
		if _, err := io.ReadFull(r.in, buf); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("corpus: the file ends before its trailer: %w", err)
		}
		for i := range k {
			words = append(words, binary.LittleEndian.Uint64(buf[8*i:]))
		}
	}
	return words, nil
}

// Next reads the next group, in memory of its own. At the end it checks the
// trailer and returns io.EOF.
func (r *Reader) Next() (*Group, error) {
	head, err := r.words(groupHead)
	if err != nil {
		return nil, err
	}
	switch head[0] {
	case magicGroup:
	case magicTrailer:
		return nil, r.end(head)
	default:
		return nil, fmt.Errorf("corpus: behind group %d comes %#x; want a group or the trailer", r.counts.Groups, head[0])
	}
	for i, n := range head[1:6] {
		if n > 64*groupWords {
			return nil, fmt.Errorf("corpus: group %d: part %d has %d entries; want at most %d", r.counts.Groups, i, n, 64*groupWords)
		}
	}
	sizes := []int{int(head[1]), 2 * int(head[2]), int(head[3]), answerWords * int(head[4]), opWords * int(head[5])}
	sum := checksum(0, head[:7])
	var parts [5][]uint64
	for i, n := range sizes {
		if parts[i], err = r.words(n); err != nil {
			return nil, err
		}
		sum = checksum(sum, parts[i])
	}
	if sum != head[7] {
		return nil, fmt.Errorf("corpus: checksum of group %d is %#x; it says %#x", r.counts.Groups, sum, head[7])
	}
	r.sum = checksum(r.sum, head[7:])
	g := &Group{Ops: make([]Op, 0, head[5]), Answers: make([]Answer, 0, head[4])}
	for w := parts[4]; len(w) > 0; w = w[opWords:] {
		o, err := r.op(w, parts[:3])
		if err != nil {
			return nil, fmt.Errorf("corpus: group %d, operation %d: %w", r.counts.Groups, len(g.Ops), err)
		}
		r.counts.count(&o)
		g.Ops = append(g.Ops, o)
	}
	for w := parts[3]; len(w) > 0; w = w[answerWords:] {
		g.Answers = append(g.Answers, Answer{Any: w[0], Device: w[1], Holders: int(uint32(w[2])), Deepest: int(w[2] >> 32)})
	}
	r.counts.Groups++
	return g, nil
}

func (r *Reader) op(w []uint64, parts [][]uint64) (Op, error) {
	o := Op{
		Nanos: w[0], Holder: int(uint32(w[1])), Kind: Kind(w[1] >> 32), Tier: uint8(w[1] >> 40),
		HasParent: w[1]>>48&1 != 0, Class: Class(w[1] >> 49 & 3), Parent: w[2],
	}
	if o.Kind >= NumKinds {
		return o, fmt.Errorf("%v; want less than %d", o.Kind, NumKinds)
	}
	if o.Holder >= r.Header.Holders {
		return o, fmt.Errorf("holder %d; want less than %d", o.Holder, r.Header.Holders)
	}
	if o.Nanos < r.counts.Nanos {
		return o, fmt.Errorf("time %d ns; the one before has %d", o.Nanos, r.counts.Nanos)
	}
	if o.Kind == Clear {
		return o, nil
	}
	from, n := int(uint32(w[3])), int(w[3]>>32)
	if o.Kind == Store {
		from, n = 2*from, 2*n
	}
	part := parts[o.Kind]
	if from+n > len(part) {
		return o, fmt.Errorf("blocks up to %d of a part of %d words", from+n, len(part))
	}
	o.Words = part[from : from+n : from+n]
	return o, nil
}

// end checks the trailer, whose first words are read already.
func (r *Reader) end(head []uint64) error {
	rest, err := r.words(trailerWords - groupHead)
	if err != nil {
		return err
	}
	t, err := decodeTotals(append(head, rest...))
	if err != nil {
		return err
	}
	if t.Checksum != r.sum {
		return fmt.Errorf("corpus: checksum of all groups is %#x; the trailer says %#x", r.sum, t.Checksum)
	}
	counted := r.counts
	counted.Peak, counted.Left, counted.Checksum = t.Peak, t.Left, t.Checksum
	if counted != t {
		return fmt.Errorf("corpus: the trailer says %+v; the groups hold %+v", t, counted)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		return fmt.Errorf("corpus: there is something behind the trailer")
	}
	r.Totals = t
	return io.EOF
}

// Corpus is a whole corpus in memory.
type Corpus struct {
	Header  Header
	Totals  Totals
	Ops     []Op
	Answers []Answer // of the queries among Ops, in their order
}

// Read reads a whole corpus into memory.
func Read(in io.Reader) (*Corpus, error) {
	r, err := NewReader(in)
	if err != nil {
		return nil, err
	}
	c := &Corpus{Header: r.Header}
	for {
		g, err := r.Next()
		if err == io.EOF {
			c.Totals = r.Totals
			return c, nil
		}
		if err != nil {
			return nil, err
		}
		c.Ops = append(c.Ops, g.Ops...)
		c.Answers = append(c.Answers, g.Answers...)
	}
}

// ReadFile reads a whole corpus into memory.
func ReadFile(name string) (*Corpus, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	defer f.Close()
	c, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}
