package identity

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
)

// CacheOwnerID is the stable name of one logical holder of a cache library's
// blocks: one dp slot of one scope. It outlives the worker ids that attach to
// it. It is comparable and may be a map key.
type CacheOwnerID struct {
	Semantics  [16]byte // what blocks mean: model, layout, hashing
	Scope      [16]byte // the control scope
	DataCenter uint64
	Slot       [16]byte
}

// IndexerDomain is the part of an owner id before its first slash. Blocks of
// one domain mean the same; those of two domains are never compared.
type IndexerDomain struct {
	Semantics [16]byte
	Scope     [16]byte
}

// Pool is a domain in one data centre.
type Pool struct {
	Domain     IndexerDomain
	DataCenter uint64
}

const (
	domainLen = 32 + 1 + 32
	poolLen   = domainLen + 1 + 16
	ownerLen  = poolLen + 1 + 32

	domainForm = "semantics:scope, 32 and 32 lower-case hex digits"
	ownerForm  = "semantics:scope/dc/slot, 32, 32, 16 and 32 lower-case hex digits"
)

// SyntaxError is a text that is no id of its kind.
type SyntaxError struct {
	Kind string // "cache owner id", "indexer domain"
	Text string
	Why  string // what is wrong with it, and where
	Want string // the form that would be right
}

// Error reads: cache owner id "x": 1 bytes long, not 115; wants semantics:….
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s %s: %s; wants %s", e.Kind, quote(e.Text), e.Why, e.Want)
}

// quote keeps a wrong text short enough for a log line.
func quote(s string) string {
	const most = 128
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// ParseCacheOwnerID reads the text of an owner id. The error is a *SyntaxError.
func ParseCacheOwnerID(s string) (CacheOwnerID, error) {
	var id CacheOwnerID
	var dc [8]byte
	why := scan(s, ownerLen, []part{
		{id.Semantics[:], ':'}, {id.Scope[:], '/'}, {dc[:], '/'}, {id.Slot[:], 0},
	})
	if why != "" {
		return CacheOwnerID{}, &SyntaxError{Kind: "cache owner id", Text: s, Why: why, Want: ownerForm}
	}
	id.DataCenter = binary.BigEndian.Uint64(dc[:])
	return id, nil
}

// ParseIndexerDomain reads the text of a domain. The error is a *SyntaxError.
func ParseIndexerDomain(s string) (IndexerDomain, error) {
	var d IndexerDomain
	why := scan(s, domainLen, []part{{d.Semantics[:], ':'}, {d.Scope[:], 0}})
	if why != "" {
		return IndexerDomain{}, &SyntaxError{Kind: "indexer domain", Text: s, Why: why, Want: domainForm}
	}
	return d, nil
}

// part is a run of hex digits and the byte that must follow it, 0 for the end.
type part struct {
	into []byte
	sep  byte
}

// scan fills the parts from s and says why it cannot.
func scan(s string, length int, parts []part) string {
	if len(s) != length {
		return fmt.Sprintf("%d bytes long, not %d", len(s), length)
	}
	at := 0
	for _, p := range parts {
		for i := range p.into {
			hi, lo := digit(s[at]), digit(s[at+1])
			if hi < 0 {
				return fmt.Sprintf("%q at byte %d is no lower-case hex digit", s[at], at)
			}
			if lo < 0 {
				return fmt.Sprintf("%q at byte %d is no lower-case hex digit", s[at+1], at+1)
			}
			p.into[i] = byte(hi<<4 | lo)
			at += 2
		}
		if p.sep == 0 {
			break
		}
		if s[at] != p.sep {
			return fmt.Sprintf("%q at byte %d, not %q", s[at], at, p.sep)
		}
		at++
	}
	return ""
}

func digit(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	}
	return -1
}

// Domain is the indexer domain the owner belongs to.
func (id CacheOwnerID) Domain() IndexerDomain {
	return IndexerDomain{Semantics: id.Semantics, Scope: id.Scope}
}

// Pool is the owner's domain and data centre.
func (id CacheOwnerID) Pool() Pool {
	return Pool{Domain: id.Domain(), DataCenter: id.DataCenter}
}

// AppendText appends the id's text. The error is always nil.
func (id CacheOwnerID) AppendText(b []byte) ([]byte, error) {
	b, _ = id.Pool().AppendText(b)
	return hex.AppendEncode(append(b, '/'), id.Slot[:]), nil
}

// AppendText appends the domain's text. The error is always nil.
func (d IndexerDomain) AppendText(b []byte) ([]byte, error) {
	b = hex.AppendEncode(b, d.Semantics[:])
	return hex.AppendEncode(append(b, ':'), d.Scope[:]), nil
}

// AppendText appends the pool's text, domain/dc. The error is always nil.
func (p Pool) AppendText(b []byte) ([]byte, error) {
	b, _ = p.Domain.AppendText(b)
	var dc [8]byte
	binary.BigEndian.PutUint64(dc[:], p.DataCenter)
	return hex.AppendEncode(append(b, '/'), dc[:]), nil
}

// MarshalText is AppendText into a new buffer.
func (id CacheOwnerID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// MarshalText is AppendText into a new buffer.
func (d IndexerDomain) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// MarshalText is AppendText into a new buffer.
func (p Pool) MarshalText() ([]byte, error) { return p.AppendText(nil) }

// UnmarshalText is ParseCacheOwnerID.
func (id *CacheOwnerID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseCacheOwnerID(string(text))
	return err
}

// UnmarshalText is ParseIndexerDomain.
func (d *IndexerDomain) UnmarshalText(text []byte) (err error) {
	*d, err = ParseIndexerDomain(string(text))
	return err
}

// String is the id's text.
func (id CacheOwnerID) String() string { b, _ := id.AppendText(nil); return string(b) }

// String is the domain's text.
func (d IndexerDomain) String() string { b, _ := d.AppendText(nil); return string(b) }

// String is the pool's text.
func (p Pool) String() string { b, _ := p.AppendText(nil); return string(b) }
