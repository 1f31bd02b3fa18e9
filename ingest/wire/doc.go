// Package wire decodes the payload of one KV-event message: a batch in any
// dialect that vLLM, SGLang, TensorRT-LLM, Dynamo, Mooncake, LMCache or the
// llm-d storage backend has published so far, in MessagePack or JSON.
//
//	payload = [ts, [event, event, …], rank?, …]       or the same as a map
//	        | [event, event, …] | event               without an envelope
//	        | the same as JSON, or as lines of JSON   by the first byte
//	event   = ["BlockStored", hashes, parent, …]      array: slots by position
//	        | {"type": "BlockStored", …}              map: keys in any order
//	        | bin( event )                            packed event
//	        | {…, "event": …} | {…, "data": …}        Dynamo's router events and
//	                                                  TensorRT-LLM's pulled ones
//
//	 d.Reset(payload) ──▶ Batch            envelope only, O(1) as a rule
//	 d.Next(&ev)      ──▶ true             one event, decoded in place
//	 d.Next(&ev)      ──▶ true             … it may be Skipped or Rejected
//	 d.Next(&ev)      ──▶ false, nil       the batch was sound to its end: commit
//	                  ──▶ false, error     it was not: roll back
//
// Invariants:
//
//   - A layout is recognised event by event, never per stream: mixed batches
//     occur.
//   - One bad event never costs its siblings. Whatever is wrong inside an
//     event is recorded and the cursor moves on by structure.
//   - Structure that does not hold (a cut value, a length beyond the payload,
//     bytes behind the batch) makes the whole batch undecodable. Nothing of a
//     batch may be committed before Next has returned false and no error.
//     [Check] and a full run of Next always agree about that.
//   - Nothing is sized by a length on the wire before that length was compared
//     with the bytes that remain. Skipping needs no stack, whatever the depth.
//   - No allocation once a Decoder's buffers have grown to the stream's events,
//     as far as engines send them: JSON, moves and extra ids may cost a few.
//
// # Where several outcomes are right
//
// The specification leaves some to choose. Chosen here:
//
//	text among the tokens       the event is decoded; it cannot match (W26)
//	hash of fewer than 8 bytes  the event is rejected (W45)
//	hash as text, in JSON too   the event is rejected (W40)
//	tokens beyond 32 bits       the event is rejected (W38)
//	tokens that do not fill the event is rejected as a whole (W41)
//	  the blocks of a dense group
//	a hash twice in a store,    the event is rejected (W31, W39)
//	  or its own parent
//	parent 0                    passed on: the index takes it for the root unless
//	                            it knows the name, ingest has an option (W30)
//	bare strings among a        see extraKeys: 64 hex digits in arrays of 9, the
//	  block's extra keys        salt last in block 0, else opaque (W08, W09)
//	rank of an event            overrides the batch's
//	a dialect's own meaning     see wrapped.go and pull.go
//
// A Decoder belongs to one goroutine. What an [Event] holds lies in the payload
// and in the Decoder's buffers, until the next Next or Reset; the payload must
// not change in between.
//
// [Describe] shows a payload with everything the hot path leaves out. It is for
// tools, and allocates as it likes.
package wire
