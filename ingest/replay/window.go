package replay

import "slices"

// Bounds of what is kept of replies that came before their turn. Order is kept
// by the socket, so it is few that come too early, unless some were dropped;
// then the rest is asked for again.
const (
	windowBatches = 256
	windowBytes   = 4 << 20
)

// window keeps batches that lie behind a hole, by sequence.
type window struct {
	items []Item
	bytes int
}

// add keeps an item, unless it is there; false if there is no room.
func (w *window) add(i Item) bool {
	at, there := slices.BinarySearchFunc(w.items, i.Seq, func(x Item, n uint64) int {
		switch {
		case x.Seq < n:
			return -1
		case x.Seq > n:
			return 1
		}
		return 0
	})
	if there {
		return true
	}
	if len(w.items) == windowBatches || len(w.items) > 0 && w.bytes+i.size() > windowBytes {
		return false
	}
	w.items = slices.Insert(w.items, at, i)
	w.bytes += i.size()
	return true
}

// next takes the item with sequence n if it is the first.
func (w *window) next(n uint64) (Item, bool) {
	for len(w.items) > 0 && w.items[0].Seq < n {
		w.drop()
	}
	if len(w.items) == 0 || w.items[0].Seq != n {
		return Item{}, false
	}
	i := w.items[0]
	w.drop()
	return i, true
}

func (w *window) drop() {
	w.bytes -= w.items[0].size()
	w.items = slices.Delete(w.items, 0, 1)
}

// lowest is the sequence of the first item.
func (w *window) lowest() (uint64, bool) {
	if len(w.items) == 0 {
		return 0, false
	}
	return w.items[0].Seq, true
}
