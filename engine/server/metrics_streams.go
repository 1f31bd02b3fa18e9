package server

import (
	"io"
	"strconv"

	"github.com/cairn-kv/cairn/engine"
)

// streamFamilies collects the lines of all streams, metric by metric: the text
// format wants the lines of one metric together, and the streams are gone
// through once. Thousands of streams have a hundred counters each, so labels are
// written out once per stream, and reasons that never came are left out.
type streamFamilies struct {
	order []*streamFamily             // as they were met
	byKey map[[2]string]*streamFamily // by key and suffix
	label []byte                      // of the stream at hand, without the closing brace
}

type streamFamily struct {
	name, kind string
	lines      []byte
}

// family finds the metric cairn_stream_<key><suffix>, or makes it.
func (s *streamFamilies) family(key, suffix, kind string) *streamFamily {
	f := s.byKey[[2]string{key, suffix}]
	if f == nil {
		f = &streamFamily{name: "cairn_stream_" + key + suffix, kind: kind}
		s.byKey[[2]string{key, suffix}] = f
		s.order = append(s.order, f)
	}
	return f
}

// add writes one line of the stream at hand, with one more label if there is a
// value for it.
func (s *streamFamilies) add(f *streamFamily, v uint64, name, value string) {
	b := append(append(f.lines, f.name...), s.label...)
	if value != "" {
		b = append(append(append(b, ','), name...), '=')
		b = append(b, label(value)...)
	}
	b = append(b, "} "...)
	f.lines = append(strconv.AppendUint(b, v, 10), '\n')
}

func (s *streamFamilies) gauge(key string, v uint64) { s.add(s.family(key, "", "gauge"), v, "", "") }

func (s *streamFamilies) flag(key string, v bool) { s.gauge(key, one(v)) }

func one(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

// stream adds everything about one stream.
func (s *streamFamilies) stream(source string, st *engine.StreamStatus) {
	s.label = append(append(s.label[:0], "{source="...), label(source)...)
	s.label = strconv.AppendInt(append(s.label, `,rank="`...), int64(st.Rank), 10)
	s.label = strconv.AppendInt(append(s.label, `",tp_shard="`...), int64(st.TPShard), 10)
	s.label = append(s.label, '"')

	s.flag("connected", st.Connected)
	s.flag("silent", st.Silent)
	s.gauge("sequence", st.Seq)
	s.gauge("applied_sequence", st.Applied)
	f := s.family("state", "", "gauge")
	for v := range engine.NumStates {
		s.add(f, one(st.State == v), "state", v.String())
	}
	if st.Cause != "" {
		s.add(s.family("cause", "", "gauge"), 1, "cause", st.Cause)
	}
	for i := range st.Counters {
		c := &st.Counters[i]
		if c.Reason != "" && c.Value == 0 {
			continue
		}
		s.add(s.family(c.Name, "_total", "counter"), c.Value, "reason", c.Reason)
	}
}

func (s *Server) writeSourceMetrics(w io.Writer, all []engine.SourceStatus) {
	fs := streamFamilies{byKey: map[[2]string]*streamFamily{}}
	for i := range all {
		for j := range all[i].Streams {
			fs.stream(all[i].ID, &all[i].Streams[j])
		}
	}
	for _, f := range fs.order {
		newFamily(w, f.name, f.kind)
		w.Write(f.lines) // to memory
	}
}
