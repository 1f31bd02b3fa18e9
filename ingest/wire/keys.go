package wire

import (
	"bytes"

	"github.com/cairn-kv/cairn/tree/content"
)

// keyList passes over a list of extra keys and remembers where it lies: which
// string in it is the adapter's name is not known before the event has ended.
// A list that says "none" for every block, the usual one, costs a byte a block.
func (d *Decoder) keyList(c *cursor, l *keyList) {
	*l = keyList{}
	if c.null() {
		return
	}
	n, ok := d.list(c, ReasonFieldType)
	if !ok {
		return
	}
	l.n = n
	for l.nils < n && c.null() {
		l.nils++
	}
	if l.nils < n {
		l.first = c.i
		c.skip(n - l.nils)
	}
}

// blockKeys resolves the extra keys of a store, block by block.
func (d *Decoder) blockKeys(c *cursor, ev *Event) {
	lists := [...]*keyList{&d.f.extra, &d.f.mm, &d.f.infos}
	var at [len(lists)]cursor
	keyed := false
	for i, l := range lists {
		if l.n == 0 {
			continue
		}
		ev.KeysStated = true
		if l.n != len(ev.Hashes) && !ev.Placeholder {
			d.reject(ReasonKeyCount)
			return
		}
		at[i] = cursor{b: c.b, i: l.first}
		keyed = keyed || l.first != 0
	}
	if !keyed || ev.Placeholder {
		return
	}
	d.keys.Reset()
	root := !ev.HasParent || ev.Parent == 0
	for block := range ev.Hashes {
		for i, l := range lists {
			if l.first == 0 || block < l.nils || at[i].null() {
				continue
			}
			switch l {
			case &d.f.extra:
				d.extraKeys(&at[i], ev, root && block == 0)
			case &d.f.mm:
				d.objects(&at[i], "hash")
			default:
				d.infos(&at[i])
			}
		}
		d.keys.Ends = append(d.keys.Ends, len(d.keys.Hashes))
	}
	if len(d.keys.Hashes) > 0 {
		ev.Keys = d.keys
	}
}

// extraKeys reads the keys of one block as vLLM sends them: an untyped list of
// the adapter's name, multimodal identifiers, the salt and digests.
func (d *Decoder) extraKeys(c *cursor, ev *Event, first bool) {
	n, ok := c.array()
	if !ok {
		d.opaque(c)
		return
	}
	// The adapter's name comes once. A second string of the same text is
	// something else: the salt of a tenant that is called like an adapter.
	adapter := len(ev.LoraName) > 0
	last := -1 // offset of the last bare string of block 0, which is the salt
	for ; n > 0; n-- {
		from := c.i
		switch c.class() {
		case classStr:
			p, _ := c.text()
			switch {
			case adapter && bytes.Equal(p, ev.LoraName):
				adapter = false
			case d.BareMultimodal || d.f.nine && content.IsHexID(p):
				d.identifier(p)
			case first:
				if last >= 0 {
					d.opaque(&cursor{b: c.b, i: last})
				}
				last = from
			default:
				c.i = from
				d.opaque(c)
			}
		case classArray:
			if id, ok := identifierPair(c); ok {
				d.identifier(id)
				continue
			}
			c.i = from
			d.opaque(c)
		default:
			d.opaque(c)
		}
	}
	if last < 0 {
		return
	}
	in := cursor{b: c.b, i: last}
	p, _ := in.text()
	switch p = salt(p); {
	case len(ev.Salt) == 0:
		ev.Salt = p
	case !bytes.Equal(ev.Salt, p): // the event names another salt: not one, then
		d.opaque(&cursor{b: c.b, i: last})
	}
}

// identifierPair reads an [identifier, offset] pair. Before anything else it
// returns false, wherever it then stands.
func identifierPair(c *cursor) ([]byte, bool) {
	if n, _ := c.array(); n != 2 {
		return nil, false
	}
	id, ok := c.str()
	if !ok {
		return nil, false
	}
	_, _, ok = c.integer()
	return id, ok
}

// infos reads Dynamo's entry of one block: a map with a list of objects.
func (d *Decoder) infos(c *cursor) {
	from := c.i
	n, ok := c.pairs()
	if !ok {
		d.opaque(c)
		return
	}
	found := false
	for ; n > 0 && !c.bad(); n-- {
		if string(c.key()) != "mm_objects" {
			c.skip(1)
			continue
		}
		found = true
		if !c.null() {
			d.objects(c, "mm_hash")
		}
	}
	if !found {
		d.opaque(&cursor{b: c.b, i: from})
	}
}

// objects reads a list of multimodal objects, maps that have their identifier
// under the given name. The offset is not part of it.
func (d *Decoder) objects(c *cursor, name string) {
	n, ok := c.array()
	if !ok {
		d.opaque(c)
		return
	}
	for ; n > 0; n-- {
		from := c.i
		m, ok := c.pairs()
		if !ok {
			d.opaque(c)
			continue
		}
		found := false
		for ; m > 0 && !c.bad(); m-- {
			if string(c.key()) == name {
				switch c.class() {
				case classStr:
					p, _ := c.text()
					d.identifier(p)
					found = true
					continue
				case classInt:
					v, _, _ := c.integer()
					d.keys.Hashes = append(d.keys.Hashes, v)
					found = true
					continue
				}
			}
			c.skip(1)
		}
		if !found {
			d.opaque(&cursor{b: c.b, i: from})
		}
	}
}

// identifier adds a multimodal identifier.
func (d *Decoder) identifier(p []byte) {
	if v, ok := content.MultimodalID(p); ok {
		d.keys.Hashes = append(d.keys.Hashes, v)
	}
}

// opaque adds a key whose meaning is not known.
func (d *Decoder) opaque(c *cursor) {
	p, ok := d.canon.value(c)
	if !ok {
		d.reject(ReasonKeyDepth)
		return
	}
	d.keys.Hashes = append(d.keys.Hashes, content.Opaque(p))
}
