package residency

// publishers are the sockets of one scope that slots are counted on. A socket
// whose last slot went is released and the first to be used again, so that
// slots that come and go do not use up sockets.
type publishers struct {
	perSocket int
	sockets   []publisher
}

type publisher struct {
	id    uint64
	slots int
}

// take counts a slot on a socket with room; fresh makes the id of a new one.
func (p *publishers) take(fresh func() uint64) (id uint64) {
	for i := range p.sockets {
		if s := &p.sockets[i]; s.slots < p.perSocket {
			s.slots++
			return s.id
		}
	}
	id = fresh()
	p.sockets = append(p.sockets, publisher{id: id, slots: 1})
	return id
}

// give takes a slot off its socket.
func (p *publishers) give(id uint64) {
	for i := range p.sockets {
		if s := &p.sockets[i]; s.id == id && s.slots > 0 {
			s.slots--
		}
	}
}

// open is how many sockets serve slots.
func (p *publishers) open() int {
	n := 0
	for _, s := range p.sockets {
		if s.slots > 0 {
			n++
		}
	}
	return n
}
