package pair

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// maxNames bounds what one fetch may ask for.
const maxNames = 1 << 20

// Counts is what one TP shard of a library saw.
type Counts struct {
	Fetches int // requests of peers
	Blocks  int // served
	Spans   int
	Bytes   int
	Refused int // blocks that were asked for and not held
}

// Library is the source's half of a pair: a pool of blocks per TP shard.
type Library struct {
	network *Network
	sockets []net.Listener

	mu     sync.Mutex
	closed bool
	held   []map[uint64]bool // per shard
	counts []Counts
	conns  map[net.Conn]bool
}

// Add starts a library with so many TP shards on host, advertised at endpoint:
// shard t is reached t ports behind it.
func (n *Network) Add(host, endpoint string, shards int) (*Library, error) {
	l := &Library{network: n, counts: make([]Counts, shards), conns: map[net.Conn]bool{}}
	for t := range shards {
		at, err := shift(endpoint, t)
		if err == nil {
			var s net.Listener
			if s, err = (&net.ListenConfig{}).Listen(n.ctx, "tcp", net.JoinHostPort(host, "0")); err == nil {
				l.sockets, l.held = append(l.sockets, s), append(l.held, map[uint64]bool{})
				n.mu.Lock()
				n.book[at] = s.Addr().String()
				n.mu.Unlock()
			}
		}
		if err != nil {
			l.Close()
			return nil, err
		}
	}
	n.mu.Lock()
	n.all = append(n.all, l)
	n.mu.Unlock()
	for t, s := range l.sockets {
		n.serving.Go(func() { l.accept(t, s) })
	}
	return l, nil
}

// Close ends the library, as a dead peer does. It is idempotent.
func (l *Library) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, s := range l.sockets {
		_ = s.Close() // its only error is a second one
	}
	for c := range l.conns {
		_ = c.Close()
	}
}

// Store makes a shard hold names; a shard below 0 is all of them.
func (l *Library) Store(shard int, names ...uint64) {
	l.each(shard, func(held map[uint64]bool) {
		for _, n := range names {
			held[n] = true
		}
	})
}

// Evict makes a shard forget names; a shard below 0 is all of them.
func (l *Library) Evict(shard int, names ...uint64) {
	l.each(shard, func(held map[uint64]bool) {
		for _, n := range names {
			delete(held, n)
		}
	})
}

// Clear empties every shard.
func (l *Library) Clear() { l.each(-1, func(held map[uint64]bool) { clear(held) }) }

func (l *Library) each(shard int, change func(held map[uint64]bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t := range l.held {
		if shard < 0 || shard == t {
			change(l.held[t])
		}
	}
}

// Counts returns what each shard saw so far.
func (l *Library) Counts() []Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Counts(nil), l.counts...)
}

func (l *Library) accept(shard int, s net.Listener) {
	for {
		c, err := s.Accept()
		if err != nil {
			return // closed
		}
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			_ = c.Close()
			return
		}
		l.conns[c] = true
		l.mu.Unlock()
		l.network.serving.Go(func() {
			l.serve(shard, c)
			_ = c.Close()
			l.mu.Lock()
			delete(l.conns, c)
			l.mu.Unlock()
		})
	}
}

// serve answers fetches on a connection until the peer leaves:
//
//	request  count u32, names u64 …        answer  count × (1 held, 0 refused)
func (l *Library) serve(shard int, c net.Conn) {
	r := bufio.NewReader(c)
	for {
		names, err := readNames(r)
		if err != nil {
			return
		}
		if _, err := c.Write(l.fetch(shard, names)); err != nil {
			return
		}
	}
}

func readNames(r io.Reader) ([]uint64, error) {
	var count uint32
	if err := binary.Read(r, binary.BigEndian, &count); err != nil {
		return nil, err
	}
	if count == 0 || count > maxNames {
		return nil, fmt.Errorf("pair: a fetch of %d names; wants 1 … %d", count, maxNames)
	}
	names := make([]uint64, count)
	return names, binary.Read(r, binary.BigEndian, names)
}

// fetch serves what the shard holds now.
func (l *Library) fetch(shard int, names []uint64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := make([]byte, len(names))
	n := &l.counts[shard]
	n.Fetches++
	for i, name := range names {
		if !l.held[shard][name] {
			n.Refused++
			continue
		}
		answer[i] = 1
		n.Blocks++
		n.Spans += SpansPerBlock
		n.Bytes += l.network.geometry.BlockBytes(len(l.held))
	}
	return answer
}

// ask sends one fetch and returns, name by name, whether it was served.
func ask(c net.Conn, names []uint64) ([]byte, error) {
	if len(names) == 0 || len(names) > maxNames {
		return nil, errors.New("pair: nothing to ask for, or too much")
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(names)))
	for _, n := range names {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	if _, err := c.Write(b); err != nil {
		return nil, err
	}
	answer := make([]byte, len(names))
	_, err := io.ReadFull(c, answer)
	return answer, err
}
