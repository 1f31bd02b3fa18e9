//go:build 386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64 || wasm

package content

import (
	"unsafe"

	"github.com/zeebo/xxh3"
)

// hashPlain hashes a window where it lies: on these machines the memory of the
// token ids is already the little-endian text the rule asks for.
func hashPlain(window []uint32, seed uint64) uint64 {
	p := (*byte)(unsafe.Pointer(unsafe.SliceData(window)))
	return xxh3.HashSeed(unsafe.Slice(p, 4*len(window)), seed)
}
