// Package topic reads the names that publishers give their messages. A
// [Template] says what a topic looks like and which of its parts name a source,
// a model and a dp rank:
//
//	kv@{source}@{model}     kv@10.0.0.7:8000@meta-llama/Llama-3.1-8B@main
//	                           └── source ──┘ └───────── model ─────────┘
//
// Text outside braces stands for itself; {{ and }} are braces. A placeholder
// ends where the text that follows it stands first, so that a model name may
// contain what separates the others; the last takes the rest. None is empty.
// There is always text between two placeholders.
//
//	{source}   the worker or pool: what the source is called
//	{model}    the model that queries ask for
//	{rank}     the dp rank, decimal
//	{any}      something nobody needs; as often as it is met
//
// The text in front of the first placeholder is the [Template.Prefix] to
// subscribe to, because ZeroMQ filters by prefix and by nothing else: what
// comes is matched again.
//
// # Concurrency
//
// A Template does not change. Match may be called by any goroutine and does not
// allocate.
package topic
