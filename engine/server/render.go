package server

import (
	"strconv"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/internal/jsontext"
)

// The answers are written by hand, so that integers are exact, the order of
// the fields is fixed and a warm request allocates next to nothing.

func appendInt(b []byte, key string, v int) []byte {
	return strconv.AppendInt(append(b, key...), int64(v), 10)
}

func appendUint(b []byte, key string, v uint64) []byte {
	return strconv.AppendUint(append(b, key...), v, 10)
}

func appendText(b []byte, key, v string) []byte {
	return jsontext.AppendString(append(b, key...), v)
}

func appendFlag(b []byte, key string, v bool) []byte {
	return strconv.AppendBool(append(b, key...), v)
}

func millis(d time.Duration) int { return int(d / time.Millisecond) }

func appendAnswer(b []byte, a *engine.Answer) []byte {
	b = appendInt(b, `{"tokens":`, a.Tokens)
	b = append(b, `,"holders":[`...)
	for i := range a.Holders {
		b = appendHolder(comma(b, i), &a.Holders[i], true)
	}
	b = append(b, ']')
	if len(a.Flagged) > 0 {
		b = append(b, `,"flagged":[`...)
		for i := range a.Flagged {
			b = appendHolder(comma(b, i), &a.Flagged[i], false)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

func appendHolder(b []byte, h *engine.HolderAnswer, depths bool) []byte {
	b = appendText(b, `{"source":`, h.Source)
	b = appendInt(b, `,"rank":`, h.Rank)
	b = appendText(b, `,"domain":`, h.Domain.String())
	b = appendInt(b, `,"block_size":`, h.BlockSize)
	if depths {
		b = appendInt(b, `,"tokens":{"device":`, h.Tokens.Device)
		b = appendInt(b, `,"host":`, h.Tokens.Host)
		b = appendInt(b, `,"any":`, h.Tokens.Any)
		b = appendInt(b, `,"host_extension":`, h.Tokens.HostExtension)
		b = append(b, '}')
	}
	if h.UpperBound {
		b = append(b, `,"upper_bound":true`...)
	}
	if h.AttachedTo != "" && h.AttachedTo != h.Source { // a configured owner has its worker's name
		b = appendText(b, `,"attached_to":`, h.AttachedTo)
	}
	b = append(b, `,"freshness":`...)
	return append(appendFreshness(b, &h.Freshness), '}')
}

func appendFreshness(b []byte, f *engine.Freshness) []byte {
	b = appendText(b, `{"state":`, f.State.String())
	b = appendCause(b, f.Cause)
	b = appendUint(b, `,"seq":`, f.Seq)
	b = appendApplied(append(b, ','), f.Applied)
	b = appendInt(b, `,"lag_ms":`, millis(f.Lag))
	b = appendInt(b, `,"age_ms":`, millis(f.Age))
	b = appendUint(b, `,"epoch":`, uint64(f.Epoch))
	if f.Advisory {
		b = append(b, `,"advisory":true`...)
	}
	if f.Silent {
		b = append(b, `,"silent":true`...)
	}
	if f.Hidden {
		b = append(b, `,"hidden":true`...)
	}
	if f.Thinned {
		b = append(b, `,"thinned":true`...)
	}
	return append(appendStreams(b, f.Streams), '}')
}

// appendCause writes why a state is not exact, if there is something to say.
func appendCause(b []byte, cause string) []byte {
	if cause == "" {
		return b
	}
	return appendText(b, `,"cause":`, cause)
}

// appendApplied writes the two ends of an interval of sequences.
func appendApplied(b []byte, in [2]uint64) []byte {
	b = appendUint(b, `"applied":[`, in[0])
	b = appendUint(b, `,`, in[1])
	return append(b, ']')
}

// appendStreams writes the intervals of several streams one by one. Those of one
// stream have been said.
func appendStreams(b []byte, all []engine.StreamPosition) []byte {
	if len(all) < 2 {
		return b
	}
	b = append(b, `,"streams":[`...)
	for i := range all {
		s := &all[i]
		b = appendUint(comma(b, i), `{"seq":`, s.Seq)
		b = appendApplied(append(b, ','), s.Applied)
		b = appendUint(b, `,"incarnation":[`, uint64(s.Incarnation[0]))
		b = appendUint(b, `,`, uint64(s.Incarnation[1]))
		b = append(b, "]}"...)
	}
	return append(b, ']')
}

func appendOwners(b []byte, all []engine.OwnerStatus) []byte {
	b = append(b, '[')
	for i := range all {
		o := &all[i]
		b = appendText(comma(b, i), `{"source":`, o.Source)
		b = appendInt(b, `,"rank":`, o.Rank)
		b = appendText(b, `,"domain":`, o.Domain.String())
		b = appendText(b, `,"model":`, o.Model)
		b = appendInt(b, `,"block_size":`, o.BlockSize)
		if o.WorkerType != "" {
			b = appendText(b, `,"worker_type":`, o.WorkerType)
		}
		if o.Endpoint != "" {
			b = appendText(b, `,"endpoint":`, o.Endpoint)
		}
		if o.AttachedTo != "" {
			b = appendText(b, `,"attached_to":`, o.AttachedTo)
		}
		if o.StateAgent {
			b = append(b, `,"state_agent":true`...)
		}
		b = append(b, `,"freshness":`...)
		b = append(appendFreshness(b, &o.Freshness), '}')
	}
	return append(b, ']')
}

func appendSources(b []byte, all []engine.SourceStatus) []byte {
	b = append(b, '[')
	for i := range all {
		s := &all[i]
		b = appendText(comma(b, i), `{"id":`, s.ID)
		b = appendText(b, `,"model":`, s.Model)
		b = appendText(b, `,"protocol":`, s.Protocol)
		b = appendText(b, `,"policy":`, s.Policy)
		b = appendInt(b, `,"shard":`, s.Shard)
		if s.WorkerType != "" {
			b = appendText(b, `,"worker_type":`, s.WorkerType)
		}
		b = appendText(b, `,"state":`, s.State.String())
		b = appendInts(append(b, `,"block_sizes":`...), s.BlockSizes)
		b = appendInts(append(b, `,"lookahead":`...), s.Lookahead)
		b = append(b, `,"streams":[`...)
		for j := range s.Streams {
			b = appendStream(comma(b, j), &s.Streams[j])
		}
		b = append(b, "]}"...)
	}
	return append(b, ']')
}

func appendInts(b []byte, v []int) []byte {
	b = append(b, '[')
	for i, n := range v {
		b = strconv.AppendInt(comma(b, i), int64(n), 10)
	}
	return append(b, ']')
}

func appendStream(b []byte, s *engine.StreamStatus) []byte {
	b = appendInt(b, `{"rank":`, s.Rank)
	b = appendInt(b, `,"tp_shard":`, s.TPShard)
	b = appendText(b, `,"endpoint":`, s.Endpoint)
	b = appendText(b, `,"state":`, s.State.String())
	b = appendCause(b, s.Cause)
	b = appendFlag(b, `,"connected":`, s.Connected)
	b = appendFlag(b, `,"silent":`, s.Silent)
	b = append(b, `,"seq":`...)
	b = appendMaybe(b, s.Seq, s.Received)
	b = append(b, `,"applied":`...)
	b = appendMaybe(b, s.Applied, s.Visible)
	b = appendUint(b, `,"incarnation":`, uint64(s.Incarnation))
	b = appendUint(b, `,"epoch":`, uint64(s.Epoch))
	b = appendInt(b, `,"age_ms":`, millis(s.Age))
	if s.LastError != "" {
		b = appendText(b, `,"last_error":`, s.LastError)
	}
	b = append(b, `,"counters":{`...)
	n := 0
	for _, c := range s.Counters {
		if c.Value == 0 {
			continue
		}
		name := c.Name
		if c.Reason != "" {
			name += "." + c.Reason
		}
		b = jsontext.AppendString(comma(b, n), name)
		b = appendUint(b, ":", c.Value)
		n++
	}
	return append(b, "}}"...)
}

func appendMaybe(b []byte, v uint64, ok bool) []byte {
	if !ok {
		return append(b, "null"...)
	}
	return strconv.AppendUint(b, v, 10)
}

func appendError(b []byte, e *apiError) []byte {
	b = appendText(b, `{"error":`, e.text)
	b = appendText(b, `,"code":`, e.code)
	if e.field != "" {
		b = appendText(b, `,"field":`, e.field)
	}
	return append(appendProblems(b, e.problems), '}')
}
