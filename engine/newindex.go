package engine

import "github.com/cairn-kv/cairn/tree"

func newIndex() tree.Interface { return tree.New(tree.Options{}) }
