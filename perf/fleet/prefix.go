package fleet

import "sync"

// prefix identifies a list of tokens, whole from its beginning, in one
// namespace. Two prompts have the same prefix id exactly if those tokens are
// equal one by one. 0 is no prefix.
type prefix uint32

// prefixes is a plain trie of tokens: what the whole truth is known by.
type prefixes struct {
	mu   sync.RWMutex
	next map[step]prefix
	ns   map[string]prefix
	last prefix
}

// step is one edge: a parent and the next Chunk tokens, compared as they are.
type step struct {
	parent prefix
	tokens [Chunk]uint32
}

func newPrefixes() *prefixes {
	return &prefixes{next: make(map[step]prefix), ns: make(map[string]prefix)}
}

// intern appends the prefixes of all full chunks of tokens behind root, making
// those that are new.
func (p *prefixes) intern(dst []prefix, root prefix, tokens []uint32) []prefix {
	base := len(dst)
	dst = p.find(dst, root, tokens)
	known := len(dst) - base
	if known == len(tokens)/Chunk {
		return dst
	}
	at := root
	if known > 0 {
		at = dst[len(dst)-1]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := known; i < len(tokens)/Chunk; i++ {
		s := step{parent: at, tokens: [Chunk]uint32(tokens[i*Chunk:])}
		n, ok := p.next[s] // another goroutine may have been here
		if !ok {
			p.last++
			n = p.last
			p.next[s] = n
		}
		dst = append(dst, n)
		at = n
	}
	return dst
}

// find appends the prefixes of the leading chunks that are known.
func (p *prefixes) find(dst []prefix, root prefix, tokens []uint32) []prefix {
	p.mu.RLock()
	defer p.mu.RUnlock()
	at := root
	for i := range len(tokens) / Chunk {
		n, ok := p.next[step{parent: at, tokens: [Chunk]uint32(tokens[i*Chunk:])}]
		if !ok {
			break
		}
		dst = append(dst, n)
		at = n
	}
	return dst
}

// root returns where the prompts of an adapter begin.
func (p *prefixes) root(adapter string) prefix {
	p.mu.RLock()
	r, ok := p.ns[adapter]
	p.mu.RUnlock()
	if ok {
		return r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok = p.ns[adapter]; !ok {
		p.last++
		r = p.last
		p.ns[adapter] = r
	}
	return r
}
