package fleet

// Chunk is the number of tokens the fleet's own trie steps by. Every block
// size is a multiple of it.
const Chunk = 16

// TokensPerID is the number of tokens that stand for one id of a trace.
const TokensPerID = 32

// vocabulary is the number of token ids in use.
const vocabulary = 128_000

// scramble is a fixed bijection of 64-bit numbers without visible pattern. It
// makes up tokens and names; nothing is ever found or compared through it.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// AppendTokens appends the TokensPerID tokens that stand for a trace id. They
// are a function of the id alone and differ from one another, so that no two
// blocks of a prompt are equal by accident.
func AppendTokens(dst []uint32, id uint32) []uint32 {
	// The first token and the step tell the id, so no two ids are alike.
	first := uint64(id) * 7919 % vocabulary
	step := 1 + scramble(uint64(id)%vocabulary)%500 + uint64(id)/vocabulary
	for j := range uint64(TokensPerID) {
		dst = append(dst, uint32((first+j*step)%vocabulary))
	}
	return dst
}

// appendDecoded appends n tokens that an engine generates behind a prompt
// whose last token is the given one. Equal prompts go on equally.
func appendDecoded(dst []uint32, last uint32, n int) []uint32 {
	x := uint64(last) | 1<<40
	for range n {
		x = scramble(x)
		dst = append(dst, uint32(x%vocabulary))
	}
	return dst
}
