package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
)

// Keys of the hints section, and of a source's part in them.
var (
	hintsKeys       = []string{"min_gain_blocks", "spread_window_blocks", "suffix_ranges", "cost"}
	costKeys        = []string{"enabled", "min_gain_seconds", "min_confidence", "coefficients"}
	coefficientKeys = []string{"model", "link", "per_token", "per_position", "bytes_per_token", "bytes_per_second", "setup_seconds"}
	hintKeys        = []string{"worker_type", "endpoint", "stride", "endpoints", "ports", "metadata", "tp", "carrier", "link"}
	portsKeys       = []string{"engine", "control_advertise_host", "control_host", "control_port", "control_ports", "tp_size", "dp_size", "pp_size", "dp_attention"}
	portsEngines    = []string{"vllm", "sglang"}
)

// spreadOff is the word for no window at all; 0 spreads ties.
const spreadOff = "off"

// hints reads the options of hints. What the values may be is the engine's to
// say, which is asked when it is opened.
func (r *reader) hints(o *engine.HintOptions, n ast.Node) {
	r.mapping(n, "hints", hintsKeys, func(key string, v ast.Node) bool {
		p := join("hints", key)
		switch key {
		case "min_gain_blocks":
			r.whole(v, p, 1, engine.MaxHintWindow, func(n uint64) { o.MinGainBlocks = int(n) })
		case "spread_window_blocks":
			if s, ok := v.(*ast.StringNode); ok && s.Value == spreadOff {
				o.Spread, o.SpreadWindowBlocks = false, 0
				break
			}
			o.Spread = true
			r.whole(v, p, 0, engine.MaxHintWindow, func(n uint64) { o.SpreadWindowBlocks = int(n) })
		case "suffix_ranges":
			r.truth(v, p, &o.SuffixRanges)
		case "cost":
			r.cost(&o.Cost, v, p)
		default:
			return false
		}
		return true
	})
}

func (r *reader) cost(o *engine.CostOptions, n ast.Node, path string) {
	r.mapping(n, path, costKeys, func(key string, v ast.Node) bool {
		p := join(path, key)
		switch key {
		case "enabled":
			r.truth(v, p, &o.Enabled)
		case "min_gain_seconds":
			r.seconds(v, p, &o.MinGain)
		case "min_confidence":
			r.fraction(v, p, 1, &o.MinConfidence)
		case "coefficients":
			r.coefficients(o, v, p)
		default:
			return false
		}
		return true
	})
}

func (r *reader) coefficients(o *engine.CostOptions, n ast.Node, path string) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongType(n, path, "a list of coefficients, each of a model, a link, or both")
		return
	}
	for i, v := range list.Values {
		var c engine.CostCoefficients
		p := fmt.Sprintf("%s[%d]", path, i)
		r.mapping(v, p, coefficientKeys, func(key string, v ast.Node) bool {
			p := join(p, key)
			switch key {
			case "model":
				r.text(v, p, &c.Model)
			case "link":
				r.text(v, p, &c.Link)
			case "per_token":
				r.fraction(v, p, math.Inf(1), &c.PerToken)
			case "per_position":
				r.fraction(v, p, math.Inf(1), &c.PerPosition)
			case "bytes_per_token":
				r.fraction(v, p, math.Inf(1), &c.BytesPerToken)
			case "bytes_per_second":
				r.fraction(v, p, math.Inf(1), &c.BytesPerSecond)
			case "setup_seconds":
				r.seconds(v, p, &c.Setup)
			default:
				return false
			}
			return true
		})
		for j := range o.Coefficients {
			if d := &o.Coefficients[j]; d.Model == c.Model && d.Link == c.Link {
				r.add(v, p, "", bad(fmt.Sprintf("is about what %s[%d] is about", path, j), "one entry for a model and link"))
			}
		}
		o.Coefficients = append(o.Coefficients, c)
	}
}

// hint reads a source's part in hints.
func (r *reader) hint(n ast.Node, path string) *engine.HintConfig {
	h := &engine.HintConfig{}
	r.mapping(n, path, hintKeys, func(key string, v ast.Node) bool {
		p := join(path, key)
		switch key {
		case "worker_type":
			r.text(v, p, &h.WorkerType)
		case "endpoint":
			r.text(v, p, &h.Endpoint)
		case "stride":
			r.whole(v, p, 1, math.MaxUint16, func(n uint64) { h.Stride = int(n) })
		case "endpoints":
			h.Endpoints = r.byRank(v, p)
		case "ports":
			h.Ports = r.ports(v, p)
		case "metadata":
			r.text(v, p, &h.Metadata)
		case "tp":
			r.whole(v, p, 1, math.MaxUint16, func(n uint64) { h.TP = int(n) })
		case "carrier":
			r.text(v, p, &h.Carrier)
		case "link":
			r.text(v, p, &h.Link)
		default:
			return false
		}
		return true
	})
	return h
}

// ports reads the settings of an engine that its control endpoints follow from,
// by the names they have there.
func (r *reader) ports(n ast.Node, path string) *hint.Ports {
	o := &hint.Ports{}
	r.mapping(n, path, portsKeys, func(key string, v ast.Node) bool {
		p := join(path, key)
		number := func(dst *int) { r.whole(v, p, 1, math.MaxUint16, func(n uint64) { *dst = int(n) }) }
		switch key {
		case "engine":
			r.word(v, p, portsEngines, func(i int) { o.SGLang = portsEngines[i] == "sglang" })
		case "control_advertise_host":
			r.text(v, p, &o.Host)
		case "control_host":
			r.text(v, p, &o.Bind)
		case "control_port":
			number(&o.Port)
		case "control_ports":
			list, ok := v.(*ast.SequenceNode)
			if !ok {
				r.wrongType(v, p, "a list with one port per dp rank")
				break
			}
			o.List = []int{}
			for i, v := range list.Values {
				r.whole(v, fmt.Sprintf("%s[%d]", p, i), 1, math.MaxUint16, func(n uint64) { o.List = append(o.List, int(n)) })
			}
		case "tp_size":
			number(&o.TP)
		case "dp_size":
			number(&o.DP)
		case "pp_size":
			number(&o.PP)
		case "dp_attention":
			r.truth(v, p, &o.DPAttention)
		default:
			return false
		}
		return true
	})
	return o
}

// byRank reads a mapping of dp ranks to endpoints.
func (r *reader) byRank(n ast.Node, path string) map[int]string {
	m := map[int]string{}
	r.mapping(n, path, []string{"0", "1", "…"}, func(key string, v ast.Node) bool {
		rank, err := strconv.Atoi(key)
		if err != nil || rank < 0 || strconv.Itoa(rank) != key {
			return false
		}
		var ep string
		r.text(v, fmt.Sprintf("%s[%d]", path, rank), &ep)
		m[rank] = ep
		return true
	})
	return m
}

// fraction reads a number of 0 … most that need not be whole.
func (r *reader) fraction(n ast.Node, path string, most float64, dst *float64) {
	want := "a number of 0 or more"
	if most < math.Inf(1) {
		want = fmt.Sprintf("a number of 0 … %g", most)
	}
	var v float64
	var err error
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		v, err = strconv.ParseFloat(n.GetToken().Value, 64)
	case *ast.StringNode: // 1e-9 is no YAML number: that would be 1.0e-9
		v, err = strconv.ParseFloat(n.Value, 64)
	default:
		r.wrongType(n, path, want)
		return
	}
	if err != nil || !(v >= 0 && v <= most) || math.IsInf(v, 0) {
		r.add(n, path, n.GetToken().Value, bad("is none", want))
		return
	}
	*dst = v
}

// seconds reads a time in seconds.
func (r *reader) seconds(n ast.Node, path string, dst *time.Duration) {
	var v float64
	r.fraction(n, path, maxSeconds, &v)
	*dst = time.Duration(math.Round(v * 1e9))
}

// maxSeconds is more than anything about a hint takes.
const maxSeconds = 86_400

// hintsItems are the options of hints, those at their default left out; nil if
// all are.
func hintsItems(o *engine.HintOptions) yaml.MapSlice {
	var list, cost items
	list.add(o.MinGainBlocks > 1, "min_gain_blocks", o.MinGainBlocks)
	list.add(o.Spread, "spread_window_blocks", o.SpreadWindowBlocks)
	list.add(o.SuffixRanges, "suffix_ranges", true)
	cost.add(o.Cost.Enabled, "enabled", true)
	cost.add(o.Cost.MinGain > 0, "min_gain_seconds", o.Cost.MinGain.Seconds())
	cost.add(o.Cost.MinConfidence > 0, "min_confidence", o.Cost.MinConfidence)
	var all []yaml.MapSlice
	for i := range o.Cost.Coefficients {
		c := &o.Cost.Coefficients[i]
		var k items
		k.add(c.Model != "", "model", c.Model)
		k.add(c.Link != "", "link", c.Link)
		k.add(c.PerToken > 0, "per_token", c.PerToken)
		k.add(c.PerPosition > 0, "per_position", c.PerPosition)
		k.add(c.BytesPerToken > 0, "bytes_per_token", c.BytesPerToken)
		k.add(c.BytesPerSecond > 0, "bytes_per_second", c.BytesPerSecond)
		k.add(c.Setup > 0, "setup_seconds", c.Setup.Seconds())
		all = append(all, yaml.MapSlice(k))
	}
	cost.add(len(all) > 0, "coefficients", all)
	list.add(len(cost) > 0, "cost", yaml.MapSlice(cost))
	return yaml.MapSlice(list)
}

// hintItems are a source's part in hints.
func hintItems(h *engine.HintConfig) yaml.MapSlice {
	var list items
	list.add(h.WorkerType != "", "worker_type", h.WorkerType)
	list.add(h.Metadata != "", "metadata", h.Metadata)
	list.add(h.Endpoint != "", "endpoint", h.Endpoint)
	list.add(h.Stride != 0, "stride", h.Stride)
	if len(h.Endpoints) > 0 {
		var by yaml.MapSlice
		for _, rank := range slices.Sorted(maps.Keys(h.Endpoints)) {
			by = append(by, yaml.MapItem{Key: strconv.Itoa(rank), Value: h.Endpoints[rank]})
		}
		list.add(true, "endpoints", by)
	}
	if h.Ports != nil {
		list.add(true, "ports", portsItems(h.Ports))
	}
	list.add(h.TP != 0, "tp", h.TP)
	list.add(h.Carrier != "", "carrier", h.Carrier)
	list.add(h.Link != "", "link", h.Link)
	return yaml.MapSlice(list)
}

// portsItems are an engine's settings.
func portsItems(p *hint.Ports) yaml.MapSlice {
	engine := portsEngines[0]
	if p.SGLang {
		engine = portsEngines[1]
	}
	list := items{{Key: "engine", Value: engine}}
	list.add(p.Host != "", "control_advertise_host", p.Host)
	list.add(p.Bind != "", "control_host", p.Bind)
	list.add(p.Port != 0, "control_port", p.Port)
	list.add(p.List != nil, "control_ports", p.List)
	list.add(p.TP != 0, "tp_size", p.TP)
	list.add(p.DP != 0, "dp_size", p.DP)
	list.add(p.PP != 0, "pp_size", p.PP)
	list.add(p.DPAttention, "dp_attention", true)
	return yaml.MapSlice(list)
}
