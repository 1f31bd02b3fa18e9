package engine

import "github.com/cairn-kv/cairn/engine/hint"

// Target names where a request was sent, and asks for a hint to go with it.
type Target struct {
	Source string
	Rank   int
	// MessageID stands in the hint: the request's or the selection's id.
	MessageID string
	// Bare leaves HintAnswer.JSON empty: the caller writes the request himself,
	// with AppendRequest, and the names are not written twice.
	Bare bool
	// QueryOnly: the caller only asks; no routing decision stands behind the
	// call, so there is no hint (reason not_admitted).
	QueryOnly bool
}

// Place names one holder of a hint's answer.
type Place struct {
	Source string
	Rank   int
	Domain Domain
	// Depth is how many blocks of BlockSize tokens the holder has, Tokens the
	// same in tokens; of a range, where it ends (HintAnswer.Start).
	Depth     int
	Tokens    int
	BlockSize int
}

// HintAnswer is exactly one of a hint and a reason. Its buffers belong to the
// caller, who hands the same HintAnswer in again to have them reused.
type HintAnswer struct {
	// Reason is hint.Hinted if there is a hint.
	Reason hint.Reason
	Detail hint.Detail
	// JSON is the kv.fetch message, empty without a hint and for Target.Bare. The
	// engine writes into its capacity.
	JSON []byte
	// Names are the block names that the hint lists, root first.
	Names []uint64
	// Start is the first block that Names lists: 0, but for a range of blocks
	// that begins behind the root (HintOptions.SuffixRanges).
	Start int
	// Endpoint is the control endpoint that the hint names.
	Endpoint string
	// MessageID is what the hint carries, Target's.
	MessageID string
	// Carrier is where the target declared to want its hints. See AppendRequest.
	Carrier hint.Carrier
	// Best is the source of the hint, or with reason ineligible the longest
	// holder that may not serve, with reason cost the one that would save most.
	// Zero otherwise.
	Best Place
	// Eligible is how many sources might have served.
	Eligible int
	// Estimate is what fetching from Best is worth, if costs are on and known.
	Estimate hint.Estimate
	// Note is a remark that is not the reason: costs are on and unknown.
	Note hint.Note
	// Threshold is what the target holds itself, in blocks of the size Best is
	// counted in (the target's own without Best) and in tokens.
	Threshold       int
	ThresholdTokens int
	// Applied and Streams say which sequences of Best's streams the depth and
	// the names rest on, as in Freshness: what was wholly visible before the
	// index was asked, and the last of which anything was visible when the names
	// were there. Zero without Best.
	Applied [2]uint64
	Streams []StreamPosition
	// Cause says why Best is not exact, as Freshness.Cause does: with reason
	// ineligible often the reason behind the reason.
	Cause string
	// TargetApplied and TargetStreams say the same of the target's streams, on
	// which the threshold rests; the names have no part in them. Zero if the
	// decision did not ask what the target holds. TargetCause is why the target
	// is not exact.
	TargetApplied [2]uint64
	TargetStreams []StreamPosition
	TargetCause   string
	// Revision of the routing snapshot that the decision rests on.
	Revision uint64
}

// AppendRequest appends the JSON object to merge into the request to the target,
// in the form that the target declared: the hint in its carrier, the block names
// as numbers, or as strings for readers that cannot hold 64 bits. Without a hint
// it appends nothing.
func (h *HintAnswer) AppendRequest(dst []byte, form hint.Form) []byte {
	if h.Reason != hint.Hinted {
		return dst
	}
	return h.Carrier.AppendRequest(dst, h.MessageID, h.Endpoint, h.Names, form)
}
