// Command cairn follows the KV-cache events of inference engines, keeps an
// index of which worker holds which blocks, and answers how much of a prompt
// each of them has, and from which peer the rest can be fetched.
//
//	cairn serve    follow the sources of a configuration and answer over HTTP
//	cairn demo     a simulated fleet, matched, hinted and checked, in a minute
//	cairn query    ask a server which holders have a prompt's prefix
//	cairn hint     ask a server for a peer-fetch hint
//	cairn check    play conformance files and recorded streams
//	cairn version  what this binary is
//
// This package is the only place that reads flags, files and the environment;
// everything below it is told what it needs. Each command builds plain options,
// runs until it is done or the context of the signals ends, and returns an
// error that main prints once.
package main
