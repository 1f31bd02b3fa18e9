// Package config reads cairn's configuration: one YAML file, CAIRN_* from the
// environment, flags. It is strict, for a key that is silently ignored is the
// commonest cause of an index that never hits: unknown keys, wrong types and
// impossible values are errors, and each names the key path, the value and
// what would be right.
//
//	cairn.yaml ─► Parse ─┐
//	CAIRN_*    ─► Environment ─► Config.Override ─► Config.Validate ─► serve
//	flags      ─► settings    ─┘   (later wins)
//
// A problem in the file does not hide the next one: Parse goes on and returns
// all of them, joined. Nothing here opens a socket or starts a goroutine; a
// Config is plain data and safe to share once it is validated.
package config
