package cairn

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/cairn-kv/cairn"

// source is one Go file of the module that is not a test.
type source struct {
	name string // path from the module's root, with slashes
	pkg  string // directory of name, "" for the root
	file *ast.File
}

// imported is one import of a source.
type imported struct {
	path  string
	blank bool
}

// sources parses every file of the module but tests, testdata and nested
// modules. Nested modules are free to depend on what they like.
func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	set := token.NewFileSet()
	var all []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			base := entry.Name()
			if name != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); name != "." && err == nil {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(name)
		dir := path.Dir(slash)
		if dir == "." {
			dir = ""
		}
		all = append(all, source{name: slash, pkg: dir, file: file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d files found: the test does not run at the module's root", len(all))
	}
	return set, all
}

func (s source) imports() []imported {
	var list []imported
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser accepted it
		}
		list = append(list, imported{path: p, blank: spec.Name != nil && spec.Name.Name == "_"})
	}
	return list
}

// within reports whether pkg is one of the patterns. "a/..." is a and all
// below it.
func within(pkg string, patterns []string) bool {
	for _, p := range patterns {
		if below, ok := strings.CutSuffix(p, "..."); ok {
			if pkg == strings.TrimSuffix(below, "/") || strings.HasPrefix(pkg, below) {
				return true
			}
		} else if pkg == p {
			return true
		}
	}
	return false
}

// arrows says which packages of ours a package may import. The first row
// whose pattern holds the package decides. A package with no row fails the
// test: where it stands has to be decided, not found out.
var arrows = []struct {
	pkg string
	may []string
}{
	{"ring", nil},
	{"tree", nil},
	{"tree/content", nil},
	{"tree/model/...", []string{"tree", "tree/model/..."}}, // the reference, for tests
	{"tree/shard", []string{"ring", "tree"}},
	{"ingest/wire", []string{"tree/content"}},
	{"ingest/zmtp", nil},
	{"ingest/seq", nil},
	{"ingest/replay", []string{"ingest/seq", "ingest/zmtp"}},
	{"ingest/journal", nil},
	{"ingest/topic", nil},
	{"ingest/bound", []string{"ingest", "ingest/topic", "ingest/wire", "ingest/zmtp"}},
	{"engine/discover", nil},
	{"internal/...", nil},
	{"ingest", []string{"ingest/...", "tree/shard", "tree", "tree/content"}},
	{"engine/hint", []string{"internal/jsontext"}},
	{"engine/identity", nil},
	{"engine/residency", []string{"engine/identity", "engine/validate"}},
	{"engine/validate", []string{"engine/identity"}},
	{"engine/registry", []string{"engine", "engine/hint", "engine/identity", "engine/residency", "engine/validate"}},
	{"engine/server", []string{"engine", "engine/hint", "engine/identity", "engine/registry", "engine/residency", "engine/validate", "internal/jsontext"}},
	{"engine", []string{"ingest/...", "tree", "tree/content", "tree/shard", "engine/discover", "engine/hint", "engine/identity", "engine/residency", "engine/validate"}},
	// The simulated fleet is the independent truth: it may publish, and knows
	// no tree, no hash and no decoder of the product.
	{"perf/fleet/...", []string{"perf/fleet/...", "ingest/zmtp"}},
	{"perf/...", []string{"perf/...", "engine/...", "ingest/...", "tree/...", "ring"}},
	{"fuzz/...", []string{"fuzz/...", "engine/...", "ingest/...", "tree/...", "ring"}},
	{"cmd/...", []string{"cmd/...", "perf/...", "engine/...", "ingest/...", "internal/memnet", "tree/...", "ring"}},
	{"", nil},
}

func TestImportDirections(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		row := slices.IndexFunc(arrows, func(a struct {
			pkg string
			may []string
		}) bool {
			return within(s.pkg, []string{a.pkg})
		})
		if row < 0 {
			t.Errorf("%s: package %q has no row in arrows", s.name, s.pkg)
			continue
		}
		for _, im := range s.imports() {
			ours, ok := strings.CutPrefix(im.path, module)
			if !ok {
				continue
			}
			ours = strings.TrimPrefix(ours, "/")
			if !within(ours, arrows[row].may) {
				t.Errorf("%s: %s must not import %s (allowed: %v)", s.name, s.pkg, ours, arrows[row].may)
			}
		}
	}
}

// core is everything an embedder's binary must carry; edge is the rest.
var edge = []string{"cmd/...", "engine/server", "perf/...", "fuzz/..."}

// coreModules is all that the core packages may need from others. BLAKE3 gives
// cache owners the ids and keys that other programs derive too.
var coreModules = []string{
	"github.com/go-zeromq/zmq4/...",
	"github.com/cespare/xxhash/v2",
	"github.com/zeebo/xxh3",
	"github.com/puzpuzpuz/xsync/v3",
	"github.com/klauspost/compress/...",
	"lukechampine.com/blake3",
}

func TestCoreDependsOnFewModules(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		if within(s.pkg, edge) {
			continue
		}
		for _, im := range s.imports() {
			first, _, _ := strings.Cut(im.path, "/")
			standard := !strings.Contains(first, ".")
			if standard || strings.HasPrefix(im.path, module) || within(im.path, coreModules) {
				continue
			}
			t.Errorf("%s: a core package must not import %s (allowed: the standard library and %v)", s.name, im.path, coreModules)
		}
	}
}

// roles says where each of the five fixed packages does its work, and where
// it must never be: go-zeromq speaks ZMTP and nothing else, xxhash hashes
// strings but never content, xsync keeps cold maps, compress stays off the
// hot paths, automaxprocs belongs to the process that owns the machine.
var roles = []struct {
	module string
	in     []string // at least one non-test file here imports it
	only   []string // no non-test file elsewhere imports it
}{
	{"github.com/go-zeromq/zmq4", []string{"ingest/zmtp"}, []string{"ingest/zmtp", "perf/..."}},
	{"github.com/cespare/xxhash/v2", []string{"engine/...", "ingest"}, []string{"engine/...", "ingest", "ingest/journal", "perf/...", "cmd/..."}},
	{"github.com/puzpuzpuz/xsync/v3", []string{"engine/...", "ingest"}, []string{"engine/...", "ingest", "perf/..."}},
	{"github.com/klauspost/compress", []string{"cmd/...", "perf/..."}, []string{"cmd/...", "perf/...", "engine/server", "ingest/journal"}},
	{"go.uber.org/automaxprocs", []string{"cmd/cairn"}, []string{"cmd/cairn"}},
}

func TestFixedPackagesDoTheirWork(t *testing.T) {
	_, all := sources(t)
	for _, role := range roles {
		found := false
		for _, s := range all {
			for _, im := range s.imports() {
				if im.path != role.module && !strings.HasPrefix(im.path, role.module+"/") {
					continue
				}
				if im.blank {
					t.Errorf("%s: blank import of %s does no work", s.name, im.path)
					continue
				}
				if !within(s.pkg, role.only) {
					t.Errorf("%s: %s has no business in %s (only in %v)", s.name, im.path, s.pkg, role.only)
				}
				found = found || within(s.pkg, role.in)
			}
		}
		if !found {
			t.Errorf("%s is imported by no non-test file of %v", role.module, role.in)
		}
	}
}

// TestTypedAtomicsOnly refuses the function forms: a word that is atomic in
// one place and plain in another is the race that no reader of the type sees.
func TestTypedAtomicsOnly(t *testing.T) {
	set, all := sources(t)
	for _, s := range all {
		name := ""
		for _, spec := range s.file.Imports {
			if spec.Path.Value == `"sync/atomic"` {
				name = "atomic"
				if spec.Name != nil {
					name = spec.Name.Name
				}
			}
		}
		if name == "" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok || pkg.Name != name {
				return true
			}
			for _, verb := range []string{"Load", "Store", "Add", "Swap", "CompareAndSwap", "And", "Or"} {
				if strings.HasPrefix(sel.Sel.Name, verb) {
					t.Errorf("%s: atomic.%s on a plain word; give the word a type such as atomic.Uint64", set.Position(sel.Pos()), sel.Sel.Name)
				}
			}
			return true
		})
	}
}
