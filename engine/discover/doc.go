// Package discover asks an engine over HTTP where its publishers are. An engine
// that binds port 0 learns its ports from the kernel and announces them; the
// next process has others, so the list is asked for before every connection:
//
//	stream of rank r ──▶ Lister.Publisher(r) ──GET──▶ engine
//	       │                    └── at most one request at a time, and one answer
//	       │                        for all ranks that ask within MinInterval
//	       └──▶ connect to what it says
//
// Two lists are understood, told apart by their shape:
//
//	vLLM    GET /kv_event_sources
//	        [{"data_parallel_rank":0,"endpoint":"tcp://10.0.0.7:40123",
//	          "replay_endpoint":null,"topic":""}, …]
//	SGLang  GET /server_info
//	        {"kv_events":{"publisher":"zmq","endpoint_host":"*",
//	          "endpoint_port_base":5557,"topic":"","dp_size":2}, …}
//
// A host that only says where an engine listens (*, 0.0.0.0, ::) is replaced by
// the host that was asked. What the engine says is not trusted beyond that: a
// reply is bounded, redirects are not followed, and only tcp endpoints count.
//
// # Concurrency
//
// A Lister may be used by any goroutine. It has no goroutine of its own.
package discover
