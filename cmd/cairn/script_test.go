package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the golden output in testdata/script")

// TestMain makes this test binary the command cairn too, so that scripts and
// end-to-end tests run what is tested here.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"cairn": main})
}

// TestScripts runs the commands as a shell would, and compares what they print
// (go test ./cmd/cairn -update rewrites it).
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
	})
}
