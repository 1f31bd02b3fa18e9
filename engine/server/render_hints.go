package server

import (
	"strconv"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/internal/jsontext"
)

// wording is how a caller wants a hint written.
type wording struct {
	form    hint.Form
	carrier hint.Carrier
	given   bool // carrier instead of the target's own
}

// parse reads the fields of a request that are about it.
func (w *wording) parse(c *cursor, key string) bool {
	switch key {
	case "hashes":
		switch s := c.text(key); s {
		case "number", "":
		case "string":
			w.form = hint.Strings
		default:
			c.fail(400, "bad_hashes", key, "%s is none of number, string", clip(strconv.AppendQuote(nil, s)))
		}
	case "carrier":
		s := c.text(key)
		if w.carrier, w.given = hint.ParseCarrier(s); !w.given {
			c.fail(400, "bad_carrier", key, "%s is none of %s", clip(strconv.AppendQuote(nil, s)), hint.Carriers)
		}
	default:
		return false
	}
	return true
}

func appendHint(b []byte, h *engine.HintAnswer, as wording) []byte {
	if len(h.JSON) > 0 {
		b = append(b, `{"hint":`...)
		if as.form == hint.Numbers {
			b = append(b, h.JSON...)
		} else {
			b = hint.AppendFetchAs(b, h.MessageID, h.Endpoint, h.Names, as.form)
		}
		if carrier := h.Carrier; as.given || carrier != hint.RequestField {
			if as.given {
				carrier = as.carrier
			}
			b = appendText(b, `,"carrier":`, carrier.String())
			b = append(b, `,"request":`...)
			b = carrier.AppendRequest(b, h.MessageID, h.Endpoint, h.Names, as.form)
		}
		b = append(b, `,"source":`...)
		b = append(appendPlace(b, &h.Best), '}')
		b = appendInt(b, `,"depth":`, h.Best.Depth)
		b = appendInt(b, `,"threshold":`, h.Threshold)
		b = appendInt(b, `,"block_size":`, h.Best.BlockSize)
		if h.Start > 0 {
			b = appendInt(b, `,"start":`, h.Start)
		}
		if h.Eligible > 1 {
			b = appendInt(b, `,"eligible":`, h.Eligible)
		}
		b = appendEstimate(b, h)
		b = appendCause(b, h.Cause)
		b = appendStreams(appendApplied(append(b, ','), h.Applied), h.Streams)
		b = appendTarget(b, h)
		b = appendUint(b, `,"revision":`, h.Revision)
		return append(b, '}')
	}
	b = appendText(b, `{"reason":`, h.Reason.String())
	if d := h.Detail.String(); d != "" {
		b = appendText(b, `,"detail":`, d)
	}
	if h.Best.Source != "" {
		b = appendPlace(append(b, `,"best":`...), &h.Best)
		b = appendInt(b, `,"depth":`, h.Best.Depth)
		b = appendCause(b, h.Cause)
		b = appendStreams(appendApplied(append(b, ','), h.Applied), h.Streams)
		b = append(b, '}')
	}
	b = appendEstimate(b, h)
	return append(appendTarget(b, h), '}')
}

// appendEstimate writes what costs had to do with it, if anything.
func appendEstimate(b []byte, h *engine.HintAnswer) []byte {
	if e := h.Estimate; e != (hint.Estimate{}) {
		b = appendMillis(b, `,"estimate":{"gain_ms":`, e.Gain())
		b = appendMillis(b, `,"recompute_ms":`, e.Recompute)
		b = appendMillis(b, `,"transfer_ms":`, e.Transfer)
		b = appendFloat(b, `,"confidence":`, e.Confidence)
		b = append(b, '}')
	}
	if h.Note != hint.NoNote {
		b = appendText(b, `,"note":`, h.Note.String())
	}
	return b
}

func appendMillis(b []byte, key string, seconds float64) []byte {
	return strconv.AppendFloat(append(b, key...), 1e3*seconds, 'f', 3, 64)
}

func appendFloat(b []byte, key string, v float64) []byte {
	return strconv.AppendFloat(append(b, key...), v, 'g', -1, 64)
}

// appendTarget writes when the target held what the decision says, if it says so.
func appendTarget(b []byte, h *engine.HintAnswer) []byte {
	if len(h.TargetStreams) == 0 {
		return b
	}
	b = appendApplied(append(b, `,"target":{`...), h.TargetApplied)
	b = appendCause(b, h.TargetCause)
	return append(appendStreams(b, h.TargetStreams), '}')
}

// appendPlace leaves the object open for what the caller adds.
func appendPlace(b []byte, p *engine.Place) []byte {
	b = appendText(b, `{"source":`, p.Source)
	b = appendInt(b, `,"rank":`, p.Rank)
	return appendText(b, `,"domain":`, p.Domain.String())
}

// appendHintStatus writes who takes part in hints, and what is known about it.
func appendHintStatus(b []byte, st *engine.HintStatus) []byte {
	o := &st.Options
	b = appendInt(b, `{"options":{"min_gain_blocks":`, max(o.MinGainBlocks, 1))
	b = append(b, `,"spread_window_blocks":`...)
	if o.Spread {
		b = strconv.AppendInt(b, int64(o.SpreadWindowBlocks), 10)
	} else {
		b = append(b, "null"...)
	}
	b = appendFlag(b, `,"cost":{"enabled":`, o.Cost.Enabled)
	b = appendFloat(b, `,"min_gain_seconds":`, o.Cost.MinGain.Seconds())
	b = appendFloat(b, `,"min_confidence":`, o.Cost.MinConfidence)
	b = appendFlag(b, `},"suffix_ranges":`, o.SuffixRanges)
	b = appendFlag(b, `,"policy":`, o.Policy != nil)
	b = appendUint(b, `},"hints":`, st.Outcomes[hint.Hinted])
	b = appendUint(b, `,"blocks":`, st.Blocks)
	b = append(b, `,"domains":{`...)
	for d := range st.Domains {
		b = appendUint(append(jsontext.AppendString(comma(b, d), engine.Domain(d).String()), ':'), "", st.Domains[d])
	}
	b = append(b, `},"reasons":{`...)
	for r := hint.Hinted + 1; r < hint.NumReasons; r++ {
		b = appendUint(append(jsontext.AppendString(comma(b, int(r)-1), r.String()), ':'), "", st.Outcomes[r])
	}
	b = append(b, `},"ineligible":{`...)
	for d := hint.NoDetail + 1; d < hint.NumDetails; d++ {
		b = appendUint(append(jsontext.AppendString(comma(b, int(d)-1), d.String()), ':'), "", st.Ineligible[d])
	}
	b = appendUint(b, `},"cost_unknown":`, st.Notes[hint.CostUnknown])
	b = appendUint(b, `,"bad_choices":`, st.BadChoices)
	b = append(b, `,"peers":[`...)
	for i := range st.Peers {
		b = appendPeer(comma(b, i), &st.Peers[i])
	}
	return append(b, "]}"...)
}

func appendPeer(b []byte, p *engine.HintPeer) []byte {
	b = appendText(b, `{"source":`, p.Source)
	b = appendInt(b, `,"rank":`, p.Rank)
	b = appendText(b, `,"domain":`, p.Domain.String())
	b = appendText(b, `,"model":`, p.Model)
	b = appendText(b, `,"worker_type":`, p.WorkerType)
	b = appendFlag(b, `,"target":`, p.Target)
	b = appendFlag(b, `,"serves":`, p.Serves)
	if p.WhyNot != "" {
		b = appendText(b, `,"why_not":`, p.WhyNot)
	}
	if p.Endpoint != "" {
		b = appendText(b, `,"endpoint":`, p.Endpoint)
	}
	if p.TP > 0 {
		b = appendInt(b, `,"tp":`, p.TP)
	}
	b = appendText(b, `,"carrier":`, p.Carrier.String())
	if p.Link != "" {
		b = appendText(b, `,"link":`, p.Link)
	}
	b = appendInt(b, `,"fetches":`, p.Fetches)
	b = append(b, `,"waiting":`...)
	b = appendMaybe(b, uint64(max(p.Waiting, 0)), p.Waiting >= 0)
	b = appendFloat(b, `,"backlog":`, p.Backlog)
	b = appendUint(b, `,"hinted":`, p.Hinted)
	if k := &p.Cost; k.Known() {
		b = appendFloat(b, `,"cost":{"per_token":`, k.PerToken)
		b = appendFloat(b, `,"per_position":`, k.PerPosition)
		b = appendFloat(b, `,"bytes_per_token":`, k.Bytes)
		b = appendFloat(b, `,"bytes_per_second":`, k.Bandwidth)
		b = appendFloat(b, `,"setup_seconds":`, k.Setup)
		b = appendFloat(b, `,"confidence":`, k.Confidence)
		b = append(b, '}')
	}
	return append(b, '}')
}
