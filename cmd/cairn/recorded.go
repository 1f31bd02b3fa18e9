package main

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-kv/cairn/ingest/journal"
)

// recordedStream is what a recording says of a stream, and what it has of it.
type recordedStream struct {
	Source   string `json:"source"`
	Model    string `json:"model"`
	Rank     int    `json:"rank"`
	TPShard  int    `json:"tp_shard"`
	Endpoint string `json:"endpoint"`
	Links    int    `json:"links"`
	Messages uint64 `json:"messages"`
	Replayed uint64 `json:"replayed"` // batches that it had asked for again
	Bytes    uint64 `json:"bytes"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`

	policy    string
	mainGroup int
	firstSeq  uint64
	tp        int
}

// defined reads the definition of a stream.
func defined(data []byte) (*recordedStream, error) {
	var d struct {
		Source struct {
			ID        string   `json:"id"`
			Model     string   `json:"model"`
			Shards    []string `json:"shards"`
			Policy    int      `json:"policy"`
			MainGroup int      `json:"main_group"`
			FirstSeq  uint64   `json:"first_seq"`
		} `json:"source"`
		Rank     int    `json:"rank"`
		TPShard  int    `json:"tp_shard"`
		Endpoint string `json:"endpoint"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("a stream's definition: %w", err)
	}
	s := &recordedStream{Source: d.Source.ID, Model: d.Source.Model, Rank: d.Rank, TPShard: d.TPShard, Endpoint: d.Endpoint,
		policy: "copies", mainGroup: d.Source.MainGroup, firstSeq: d.Source.FirstSeq, tp: max(1, len(d.Source.Shards))}
	if d.Source.Policy == 1 {
		s.policy = "set"
	}
	return s, nil
}

// sequence is the sequence of a recorded message; false if it is malformed.
func sequence(frames [][]byte) (uint64, bool) {
	if len(frames) != 3 || len(frames[1]) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(frames[1]), true
}

// intact reads the records of a recording from its beginning. What is damaged is
// passed over; any other error is the last thing there is.
func intact(r *journal.Reader) iter.Seq2[*journal.Record, error] {
	return func(yield func(*journal.Record, error) bool) {
		if err := r.Seek(0); err != nil {
			yield(nil, err)
			return
		}
		for {
			rec, err := r.Next()
			switch {
			case err == io.EOF:
				return
			case errors.Is(err, journal.ErrCorrupt):
				continue
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// streamsOf reads a recording to its end and returns its streams by source,
// rank and TP shard, and how many records it says are missing.
func streamsOf(r *journal.Reader) (all []*recordedStream, lost uint64, err error) {
	now := map[uint32]*recordedStream{}
	for rec, err := range intact(r) {
		if err != nil {
			return nil, 0, err
		}
		s := now[rec.Stream]
		switch {
		case rec.Kind == journal.Lost:
			lost += rec.N
		case rec.Kind == journal.Define:
			if s, err = defined(rec.Data[0]); err != nil {
				return nil, 0, err
			}
			now[rec.Stream] = s
			all = append(all, s)
		case s == nil:
		case rec.Kind == journal.Up:
			s.Links++
		case rec.Kind == journal.Message || rec.Kind == journal.Reply:
			if seq, ok := sequence(rec.Data); ok {
				if s.Messages+s.Replayed == 0 {
					s.First = seq
				}
				s.Last = seq
			}
			if rec.Kind == journal.Reply {
				s.Replayed++
			} else {
				s.Messages++
			}
			for _, b := range rec.Data {
				s.Bytes += uint64(len(b))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *recordedStream) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.TPShard, b.TPShard))
	})
	return all, lost, nil
}

// describeRecording prints what is in a recording.
func describeRecording(w io.Writer, r *journal.Reader, asJSON bool) error {
	streams, lost, err := streamsOf(r)
	if err != nil {
		return err
	}
	in := r.Info()
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Version int               `json:"version"`
			Mode    string            `json:"mode"`
			Created time.Time         `json:"created"`
			From    time.Time         `json:"from"`
			To      time.Time         `json:"to"`
			Records uint64            `json:"records"`
			Chunks  int               `json:"chunks"`
			Bytes   int64             `json:"bytes"`
			Raw     int64             `json:"unpacked_bytes"`
			Closed  bool              `json:"closed"`
			Torn    int64             `json:"torn_bytes"`
			Lost    uint64            `json:"lost"`
			Streams []*recordedStream `json:"streams"`
		}{journal.Version, in.Mode.String(), in.Created, in.From, in.To, in.Records, in.Chunks, in.Bytes, in.Raw, in.Indexed, in.Torn, lost, streams})
	}
	fmt.Fprintf(w, "%s recording, format %d, begun %s\n", in.Mode, journal.Version, in.Created.UTC().Format(time.RFC3339))
	fmt.Fprintf(w, "%d records in %d chunks, %d bytes packed, %d unpacked\n", in.Records, in.Chunks, in.Bytes, in.Raw)
	if in.Records > 0 {
		fmt.Fprintf(w, "from %s to %s, %v\n", in.From.UTC().Format(time.RFC3339Nano), in.To.UTC().Format(time.RFC3339Nano), in.To.Sub(in.From).Round(time.Millisecond))
	}
	switch {
	case in.Torn > 0:
		fmt.Fprintf(w, "cut off: its last %d bytes are no whole chunk\n", in.Torn)
	case !in.Indexed:
		fmt.Fprintln(w, "not closed: it is being written, or its writer was ended")
	}
	if lost > 0 {
		fmt.Fprintf(w, "%d records are missing: the recording itself says so\n", lost)
	}
	var rows [][]string
	for _, s := range streams {
		seqs := "-"
		if s.Messages+s.Replayed > 0 {
			seqs = fmt.Sprintf("%d…%d", s.First, s.Last)
		}
		rows = append(rows, []string{s.Source, strconv.Itoa(s.Rank), strconv.Itoa(s.TPShard), s.Model,
			strconv.Itoa(s.Links), strconv.FormatUint(s.Messages, 10), strconv.FormatUint(s.Replayed, 10), seqs, strconv.FormatUint(s.Bytes, 10)})
	}
	t := tables{w: w}
	t.table("", "SOURCE RANK TP MODEL LINKS MESSAGES REPLAYED SEQUENCES BYTES", rows)
	return t.err
}
