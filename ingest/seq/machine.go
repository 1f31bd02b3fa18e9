package seq

// Never is the number that is never data: it marks the end of a replay.
const Never = 1<<64 - 1

// Kind is what to do with a message.
type Kind uint8

const (
	// Apply: it is the next one.
	Apply Kind = iota
	// Duplicate: drop it, it is dealt with already.
	Duplicate
	// Gap: Missing numbers before it have not come. Hold it.
	Gap
	// Restart: the publisher began anew. Clear, and then treat the message as
	// Apply if nothing is Missing, as Gap if something is.
	Restart
	// Refused: drop it, it is no sequence number.
	Refused
	NumKinds
)

var kindNames = [NumKinds]string{"apply", "duplicate", "gap", "restart", "refused"}

// String returns the lower-case name of k.
func (k Kind) String() string {
	if k < NumKinds {
		return kindNames[k]
	}
	return "invalid"
}

// Verdict says what to do with a message.
type Verdict struct {
	Kind    Kind
	Missing uint64 // numbers between the next one expected and the message
}

// Machine holds the positions of one stream. The zero value is a stream that
// starts at 0. It is not safe for concurrent use.
type Machine struct {
	// First is the number a stream starts at: 0, or 1 for a Mooncake master and
	// the llm-d storage backend. Set it before the first message.
	First uint64

	live, applied       uint64
	anyLive, anyApplied bool
}

// Observe judges a message of the live socket. On Apply, and on a Restart with
// nothing Missing, the message counts as applied from here on, also if its
// payload turns out undecodable: it has used up its number.
func (m *Machine) Observe(seq uint64) Verdict {
	if seq == Never {
		return Verdict{Kind: Refused}
	}
	if m.anyLive && seq < m.live {
		m.Reset()
		m.live, m.anyLive = seq, true
		return Verdict{Kind: Restart, Missing: m.advance(seq).Missing}
	}
	m.live, m.anyLive = seq, true
	return m.advance(seq)
}

// ObserveFirst judges the first message of the live socket on a new connection.
// Publishers send nothing twice, so there the last number again is no
// duplicate: another process has come just as far.
func (m *Machine) ObserveFirst(seq uint64) Verdict {
	if m.anyLive && seq == m.live && seq != Never {
		m.Reset()
		m.live, m.anyLive = seq, true
		return Verdict{Kind: Restart, Missing: m.advance(seq).Missing}
	}
	return m.Observe(seq)
}

// Disconnected notes the end of the live socket's connection. What a replay
// brought beyond the last live message does not come live any more: on the next
// connection, a number up to there is another process's.
func (m *Machine) Disconnected() {
	if m.anyApplied && (!m.anyLive || m.applied > m.live) {
		m.live, m.anyLive = m.applied, true
	}
}

// Heard notes that seq came on the live socket of a publisher that is known
// anew: after Reset, for what is held and belongs to it.
func (m *Machine) Heard(seq uint64) { m.live, m.anyLive = seq, true }

// Replayed judges a message that is not news of the live socket: a reply of a
// replay, or a live one that was observed, held, and is offered again. It never
// tells a restart.
func (m *Machine) Replayed(seq uint64) Verdict {
	if seq == Never {
		return Verdict{Kind: Refused}
	}
	return m.advance(seq)
}

// advance compares with what is applied, and moves on if seq is next.
func (m *Machine) advance(seq uint64) Verdict {
	switch next := m.Next(); {
	case m.anyApplied && seq <= m.applied:
		return Verdict{Kind: Duplicate}
	case seq > next:
		return Verdict{Kind: Gap, Missing: seq - next}
	}
	m.applied, m.anyApplied = seq, true
	return Verdict{Kind: Apply}
}

// Next returns the first number that is not dealt with: where a replay has to
// begin.
func (m *Machine) Next() uint64 {
	if !m.anyApplied {
		return m.First
	}
	return m.applied + 1 // below 2^64: Never is not applied
}

// Applied returns the highest number that is dealt with, and false if there is
// none.
func (m *Machine) Applied() (uint64, bool) { return m.applied, m.anyApplied }

// Live returns the last number of the live socket, and false if there is none.
func (m *Machine) Live() (uint64, bool) { return m.live, m.anyLive }

// Skip gives up everything up to and including seq: it is lost, or the caller
// has dealt with it otherwise. It never moves back.
func (m *Machine) Skip(seq uint64) {
	if seq == Never || m.anyApplied && seq <= m.applied {
		return
	}
	m.applied, m.anyApplied = seq, true
}

// Reset forgets everything but First, as for a new publisher.
func (m *Machine) Reset() { *m = Machine{First: m.First} }
