//go:build !(386 || amd64 || arm || arm64 || loong64 || mips64le || mipsle || ppc64le || riscv64 || wasm)

package content

// hashPlain hashes a window through a buffer: this machine's byte order is not
// that of the rule, or is not known to be.
func hashPlain(window []uint32, seed uint64) uint64 {
	return hashPortable(window, seed)
}
