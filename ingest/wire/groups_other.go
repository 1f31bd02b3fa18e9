//go:build !amd64 || purego || race

package wire

// groups decodes none: the simple loop does it all.
func groups([]uint32, []byte) (tokens, size int) { return 0, 0 }
