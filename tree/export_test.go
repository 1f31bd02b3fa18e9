package tree

// Check is check for the tests outside the package.
func (x *Index) Check() error { return x.check() }

// Hook lets a test stop the writer between any two stores that readers can tell
// apart, and readers within their walks.
func (x *Index) Hook(write, read func()) {
	x.hook, x.readHook = nil, read
	if write != nil {
		x.hook = func(point) { write() }
	}
}

// Pleading reports whether a reader waits for the writer to answer it.
func (x *Index) Pleading() bool { return x.pleas.Load() != nil }

// Eager makes the fourth lane of a run begin a dense cell, and groups of any two
// lanes that are alike, so that few holders show what many do; and runs of eight
// blocks move when two are left.
func (x *Index) Eager() *Index {
	x.moveFrom = 1
	x.denseFrom, x.groupFrom, x.looseFrom = 0, 2, 0
	return x
}

// GiveBack gives back what memory of arenas nobody uses, as a tight budget does.
func (x *Index) GiveBack() bool { return x.giveBack() }
