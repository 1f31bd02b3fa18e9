// Package wire decodes the payload of one KV-event message: a MessagePack
// batch in any dialect that vLLM, SGLang, TensorRT-LLM, Mooncake, LMCache or
// the llm-d storage backend has published so far.
//
//	payload = [ts, [event, event, …], rank?, …]       or the same as a map
//	event   = ["BlockStored", hashes, parent, …]      array: slots by position
//	        | {"type": "BlockStored", …}              map: keys in any order
//	        | bin( event )                            packed event
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
//   - No allocation once a Decoder's buffers have grown to the stream's events.
//
// A Decoder belongs to one goroutine. What an [Event] holds lies in the payload
// and in the Decoder's buffers, until the next Next or Reset; the payload must
// not change in between.
//
// [Describe] shows a payload with everything the hot path leaves out. It is for
// tools, and allocates as it likes.
package wire
