package tree

// NameHash is where the name table puts a name, for tests that aim at one place.
func (x *Index) NameHash(name uint64) uint64 { return x.names.hash(name) }
