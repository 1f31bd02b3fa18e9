package config

import (
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/cairn-kv/cairn/engine"
)

// repairKeys are the keys of the repair section. What is not given is the
// engine's default.
var repairKeys = []string{"at_once", "hold_batches", "hold_bytes", "silence", "total", "cooldown", "probe_after"}

// Limits of what a repair may say.
const (
	MaxRepairs     = 1 << 12
	MaxHoldBatches = 1 << 24
	MinHoldBytes   = 64 << 10
	MaxHoldBytes   = 16 << 30
	MaxRepairTime  = time.Hour
)

// Words for what an engine option says with a negative duration.
const (
	noCooldown  = "none"
	probesNever = "never"
)

// repair reads how streams make up for what they missed.
func (r *reader) repair(o *engine.RepairOptions, n ast.Node) {
	r.mapping(n, "repair", repairKeys, func(key string, v ast.Node) bool {
		p := join("repair", key)
		switch key {
		case "at_once":
			r.whole(v, p, 1, MaxRepairs, func(n uint64) { o.AtOnce = int(n) })
		case "hold_batches":
			r.whole(v, p, 1, MaxHoldBatches, func(n uint64) { o.HoldBatches = int(n) })
		case "hold_bytes":
			r.size(v, p, MinHoldBytes, MaxHoldBytes, func(n int64) { o.HoldBytes = int(n) })
		case "silence":
			r.duration(v, p, time.Millisecond, MaxRepairTime, &o.Silence)
		case "total":
			r.duration(v, p, time.Millisecond, MaxRepairTime, &o.Total)
		case "cooldown":
			r.durationOr(noCooldown, v, p, time.Millisecond, MaxRepairTime, &o.Cooldown)
		case "probe_after":
			r.durationOr(probesNever, v, p, time.Millisecond, MaxRepairTime, &o.ProbeAfter)
		default:
			return false
		}
		return true
	})
}

// durationOr reads a duration, or the word for -1.
func (r *reader) durationOr(word string, n ast.Node, path string, least, most time.Duration, dst *time.Duration) {
	if s, ok := n.(*ast.StringNode); ok && s.Value == word {
		*dst = -1
		return
	}
	r.duration(n, path, least, most, dst)
}

// repairItems are the keys that are not at their default, nil if all are.
func repairItems(o *engine.RepairOptions) yaml.MapSlice {
	var list items
	list.add(o.AtOnce != 0, "at_once", o.AtOnce)
	list.add(o.HoldBatches != 0, "hold_batches", o.HoldBatches)
	list.add(o.HoldBytes != 0, "hold_bytes", formatBytes(int64(o.HoldBytes)))
	list.add(o.Silence != 0, "silence", o.Silence.String())
	list.add(o.Total != 0, "total", o.Total.String())
	word := func(key string, d time.Duration, negative string) {
		if d < 0 {
			list.add(true, key, negative)
		} else {
			list.add(d != 0, key, d.String())
		}
	}
	word("cooldown", o.Cooldown, noCooldown)
	word("probe_after", o.ProbeAfter, probesNever)
	return yaml.MapSlice(list)
}
