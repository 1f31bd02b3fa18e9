package tree

// Check is check for the tests outside the package.
func (x *Index) Check() error { return x.check() }
