package residency

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rows are the rows of the specification of residency that a subtest must hold,
// by the ids that subtests carry: those of its tables where they have some,
// section and row where not.
// Those of the validators (A … D) are held by package validate itself.
var rows = map[string]string{
	"R1": "slot leak", "R2": "socket leak", "R3": "post-gap publication", "R4": "cancelled start", "R5": "late start failure",
	"R6": "cleanup masks worker error", "R7": "rank without hint endpoint", "R8": ".localhost", "R9": "protocol matrix",
	"R10": "independent eviction", "R11": "no intents", "R12": "stale generation", "R13": "null domain clear", "R14": "shard skew",
	"R15": "legacy path",

	"5.1.1": "attach: refused", "5.1.2": "attach: generation, clears, barrier", "5.1.3": "attach: open, cursor, ready",
	"5.1.4": "attach: start, advertise, re-check, roll back",
	"5.2.1": "cursor: any first sequence", "5.2.2": "cursor: require_first_seq_zero", "5.2.3": "cursor: exactly the next",
	"5.3.1": "fence", "5.3.2": "cache-owner fault", "5.3.3": "worker failed", "5.3.4": "quarantine",
	"5.4.1": "detach", "5.4.2": "shutdown",
	"5.5.1": "schedulable", "5.5.2": "hint_ready", "5.5.3": "outcomes", "5.5.4": "revision", "5.5.5": "two sources", "5.5.6": "source removed",
	"6.1": "no intent", "6.2": "one intent", "6.3": "more intents", "6.4": "shared sockets", "6.5": "watch ends", "6.6": "changed intent",
	"6.7": "new hint metadata", "6.8": "status", "6.9": "host discovery",
	"8.1": "registration in rank order, undone in reverse", "8.2": "a caller that is gone", "8.3": "attach before the worker serves",
	"8.4": "first error, late failures", "8.5": "bounded, idempotent end",
}

// ofFunction finds the row that a test function is named after: TestR8Localhost.
var ofFunction = regexp.MustCompile(`^TestR[0-9]+`)

// TestEveryRowHasItsTest finds, in the tests of all packages that owners go
// through, a named case for every row: a string literal whose first word is the
// row's id, inside a test function, or a function that is named after it. A
// comment does not count.
func TestEveryRowHasItsTest(t *testing.T) {
	named := map[string][]string{}
	for _, dir := range []string{".", "..", "../validate", "../registry", "../server", "../../ingest"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d test files, %v", dir, len(files), err)
		}
		for _, name := range files {
			if filepath.Base(name) == "rows_test.go" {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || !strings.HasPrefix(f.Name.Name, "Test") {
					continue
				}
				if id := ofFunction.FindString(f.Name.Name); id != "" {
					named[id[len("Test"):]] = append(named[id[len("Test"):]], f.Name.Name)
				}
				ast.Inspect(f, func(n ast.Node) bool {
					lit, ok := n.(*ast.BasicLit)
					if !ok || lit.Kind != token.STRING {
						return true
					}
					text, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					id, _, _ := strings.Cut(text, " ")
					if _, wanted := rows[id]; wanted {
						named[id] = append(named[id], set.Position(lit.Pos()).String())
					}
					return true
				})
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if len(named[id]) == 0 {
			t.Errorf("no test is named for row %s (%s)", id, rows[id])
		}
	}
}
