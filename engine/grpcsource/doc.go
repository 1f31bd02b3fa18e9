// Package grpcsource follows engines that offer their KV-cache events over
// gRPC: SubscribeKvEvents, as vLLM's, SGLang's, TensorRT-LLM's and TokenSpeed's
// gRPC servers have it. It is a module of its own, so that nobody carries gRPC
// who does not need it.
//
//	err := grpcsource.Add(ctx, e, engine.Source{ID: "w1", Model: "m"}, grpcsource.Options{
//		Target:  "10.0.0.1:50051",
//		Service: grpcsource.SGLang,
//	})
//
// A batch becomes one of cairn's own in MessagePack and goes the way of all
// others: judged by its sequence, decoded, applied, vouched for.
//
//	server ── KvEventBatch ──▶ link ── frames ──▶ ingest.Stream ──▶ index
//	   ▲                        │
//	   └── start_sequence_number┘  0: from now on; n: what came behind n
//
// # What the link does about sequences
//
//	next, or the first of a subscription from 0   passed on
//	one that came before                          skipped
//	one too high                                  subscribed again behind the last,
//	                                              at once; if it is too high again,
//	                                              it is passed on: a loss for good
//	first of a new connection, and lower          passed on: the server began anew
//	the end, or an error                          connected again, with back-off
//	DATA_LOSS                                     the same, from 0, as another process:
//	                                              what the worker had is given up
//	UNIMPLEMENTED                                 the source ends: it has no events
//
// A subscription from 0 says nothing of what was resident before, so that a
// source begins as one that is joined late: degraded, unless its first sequence
// is the first there is.
//
// The messages are read field by field from the wire, by the numbers that are
// the protocol; there is no generated code. Unknown fields are ignored. Group
// events, which are proposed and in no release, are not read.
//
// A link has one goroutine, which ends with it.
package grpcsource
