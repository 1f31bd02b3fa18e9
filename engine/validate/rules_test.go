package validate

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

// met are the rules that rows of the tables were refused by.
var met sync.Map

// TestMain holds the tables whole: every rule there is was met by a row. A run
// of chosen tests proves nothing about that and is let off.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	chosen := flag.Lookup("test.run").Value.String() + flag.Lookup("test.skip").Value.String() + flag.Lookup("test.list").Value.String()
	if code == 0 && chosen == "" {
		for r := Rule(1); r < numRules; r++ {
			if _, ok := met.Load(r); !ok {
				fmt.Printf("FAIL: no row of a table is refused by %v\n", r)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// TestRows holds the rules to the rows of the specification: none missing, none
// twice.
func TestRows(t *testing.T) {
	ids := map[string]Rule{}
	for r := Rule(1); r < numRules; r++ {
		if other, taken := ids[r.ID()]; taken || r.ID() == "" {
			t.Errorf("rules %d and %d have the id %q", other, r, r.ID())
		}
		ids[r.ID()] = r
	}
	for _, table := range "ABCD" {
		for n := 1; n <= 7; n++ {
			if id := fmt.Sprintf("%c%d", table, n); ids[id] == 0 {
				t.Errorf("no rule %s", id)
			}
		}
	}
	if got := Rule(0).Error() + numRules.ID(); got != "unknown ruleunknown" {
		t.Errorf("no rule is %q", got)
	}
}
