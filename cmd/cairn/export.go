package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/journal"
)

// capturing is one stream's file for cairn check, being written.
type capturing struct {
	stream *recordedStream
	file   *os.File
	zip    *zstd.Encoder
	out    *bufio.Writer
	err    error

	held     map[uint64][][]byte // messages that waited for a repair
	begun    bool
	last     uint64
	expected uint64 // the next sequence
}

// exportCaptures writes a file for each stream of a recording in the format
// that cairn check plays: the messages in the order in which they were applied,
// what was lost between them, and how many residencies there were in the end.
func exportCaptures(r *journal.Reader, dump []byte, folder string) (err error) {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	var all []*capturing
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.close())
		}
	}()
	now := map[uint32]*capturing{}
	for rec, err := range intact(r) {
		if err != nil {
			return err
		}
		c := now[rec.Stream]
		switch {
		case rec.Kind == journal.Define:
			s, err := defined(rec.Data[0])
			if err != nil {
				return err
			}
			if s.tp > 1 || s.firstSeq != 0 {
				continue // a capture has one shard, and begins at 0
			}
			if c, err = newCapturing(folder, s, len(all)); err != nil {
				return err
			}
			now[rec.Stream] = c
			all = append(all, c)
		case c == nil:
		case rec.Kind == journal.Message && ingest.Fate(rec.N) == ingest.Held:
			if seq, ok := sequence(rec.Data); ok {
				own := make([][]byte, len(rec.Data))
				for i, b := range rec.Data {
					own[i] = append([]byte(nil), b...)
				}
				c.held[seq] = own
			}
		case rec.Kind == journal.Merge:
			c.message(c.held[rec.N])
			delete(c.held, rec.N)
		case rec.Kind == journal.Reply || rec.Kind == journal.Message && ingest.Fate(rec.N) == ingest.Dealt:
			c.message(rec.Data)
		}
	}
	alone := map[string]int{}
	for _, c := range all {
		alone[c.stream.Source]++
	}
	for _, c := range all {
		c.state(dump, alone[c.stream.Source] == 1)
	}
	return nil
}

func newCapturing(folder string, s *recordedStream, n int) (*capturing, error) {
	name := fmt.Sprintf("%03d-%s-%d.jsonl.zst", n, url.PathEscape(s.Source), s.Rank)
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	zip, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c := &capturing{stream: s, file: f, zip: zip, out: bufio.NewWriter(zip), held: map[uint64][][]byte{}}
	c.line(map[string]any{
		"kind": "head", "id": strings.TrimSuffix(name, ".jsonl.zst"), "engine": "recorded", "version": "",
		"streams":     []map[string]any{{"name": "live", "topic": "", "rank": s.Rank}},
		"index_block": 1, "policy": s.policy, "config": map[string]any{"main_group": s.mainGroup},
	})
	return c, nil
}

func (c *capturing) line(v any) {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = c.out.Write(append(b, '\n'))
	}
	c.err = errors.Join(c.err, err)
}

// message writes one message, and in front of it what is missing before it.
func (c *capturing) message(frames [][]byte) {
	seq, ok := sequence(frames)
	if !ok {
		return
	}
	if c.begun && seq <= c.last {
		c.expected = 0 // another process
	}
	text := func(n uint64) string { return strconv.FormatUint(n, 10) }
	if seq > c.expected {
		c.line(map[string]any{"kind": "lost", "stream": "live", "from": text(c.expected), "to": text(seq - 1)})
	}
	c.line(map[string]any{"kind": "msg", "stream": "live", "topic": "", "seq": text(seq), "payload": base64.StdEncoding.EncodeToString(frames[2])})
	c.begun, c.last, c.expected = true, seq, seq+1
}

// state writes how many residencies the replay ended with: those of the
// stream's rank, or of all ranks if it is the source's only stream.
func (c *capturing) state(dump []byte, alone bool) {
	if !c.begun {
		return
	}
	held := 0
	source := c.stream.Source
	for line := range strings.Lines(string(dump)) {
		f := strings.Fields(line)
		if len(f) > 3 && f[0] == "block" && f[1] == source && f[3] == "worker" && (alone || f[2] == strconv.Itoa(c.stream.Rank)) {
			held++
		}
	}
	c.line(map[string]any{"kind": "state", "stream": "live", "after": strconv.FormatUint(c.last, 10), "resident": held})
}

func (c *capturing) close() error {
	return errors.Join(c.err, c.out.Flush(), c.zip.Close(), c.file.Close())
}
