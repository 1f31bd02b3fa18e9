package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/engine"
)

func TestParseRepair(t *testing.T) {
	for text, want := range map[string]engine.RepairOptions{
		"": {},
		"repair: {at_once: 2, hold_batches: 10, hold_bytes: 1MiB, silence: 1s, total: 1m, cooldown: 5s, probe_after: 2s}\n": {
			AtOnce: 2, HoldBatches: 10, HoldBytes: 1 << 20, Silence: time.Second, Total: time.Minute, Cooldown: 5 * time.Second, ProbeAfter: 2 * time.Second},
		"repair: {cooldown: none, probe_after: never}\n": {Cooldown: -1, ProbeAfter: -1},
	} {
		got, err := Parse("c.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.Repair); d != "" {
			t.Errorf("%s(-want +got)\n%s", text, d)
		}
		out, err := got.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse("printed.yaml", out); err != nil || !cmp.Equal(again.Repair, want) {
			t.Errorf("read back as %+v, %v\n%s", again.Repair, err, out)
		}
	}
	for text, want := range map[string]string{
		"repair: {at_onc: 1}":        `repair.at_onc: is not a known key; want at_once`,
		"repair: {at_once: 0}":       `c.yaml:1:19: repair.at_once: 0 is out of range; want a whole number from 1 to 4096`,
		"repair: {hold_bytes: 1KiB}": `repair.hold_bytes: "1KiB" is out of range; want a size from 64KiB to 16GiB`,
		"repair: {cooldown: never}":  `repair.cooldown: "never" is not a duration`,
		"repair: 8":                  `repair: 8 is a number; want a mapping with the keys at_once`,
	} {
		if _, err := Parse("c.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range repairKeys {
		if !strings.Contains(string(text), "\n| `repair."+key+"` |") {
			t.Errorf("no row of repair.%s", key)
		}
	}
}
