package fleet

import (
	"fmt"
	"slices"
)

// Dialect is the shape in which an engine publishes its events.
type Dialect uint8

const (
	VLLMMap     Dialect = iota // vLLM 0.26 and later: maps, ownership
	VLLMArray12                // vLLM 0.22 – 0.23: arrays with group and kind
	VLLMArray8                 // vLLM 0.14 – 0.16: arrays with adapter name
	SGLangMap                  // SGLang 0.5.20 and later: maps, signed hashes
	SGLangArray                // SGLang 0.5.9 – 0.5.17: arrays of 7
	numDialects
)

var dialectNames = [numDialects]string{"vllm-map", "vllm-array12", "vllm-array8", "sglang-map", "sglang-array"}

// String returns the dialect's name in reports.
func (d Dialect) String() string {
	if d < numDialects {
		return dialectNames[d]
	}
	return fmt.Sprintf("dialect(%d)", uint8(d))
}

func (d Dialect) sglang() bool { return d == SGLangMap || d == SGLangArray }

// adapters reports whether events of the dialect name an adapter.
func (d Dialect) adapters() bool { return d != SGLangArray }

// owned reports whether events of the dialect can carry an ownership.
func (d Dialect) owned() bool { return d == VLLMMap || d == SGLangMap }

// Protocols an engine may be declared with. All but Framework have owned
// residency and so a pool.
const (
	Framework = "framework_v1"
	Residency = "vllm_residency_v1"
	HiCache   = "sglang_hicache_v1"
)

// Break makes the published stream differ from what happened, to show that a
// judge notices.
type Break uint8

const (
	// Sound publishes what happened.
	Sound Break = iota
	// DropRemoves leaves half of the removed events out of their batches.
	DropRemoves
	// Reorder sends the payloads of each eight batches in reversed order,
	// under rising sequences.
	Reorder
)

// ParseBreak reads the name of a breakage: "", drop-removes or reorder.
func ParseBreak(s string) (Break, error) {
	switch s {
	case "":
		return Sound, nil
	case "drop-removes":
		return DropRemoves, nil
	case "reorder":
		return Reorder, nil
	}
	return Sound, fmt.Errorf("fleet: no breakage is called %q; there are drop-removes and reorder", s)
}

// Engine describes one simulated engine. Capacities are in blocks, per rank
// and TP shard; zero means the tier does not exist.
type Engine struct {
	ID, Model string
	Dialect   Dialect
	Protocol  string // "" is Framework
	BlockSize int    // tokens; a multiple of Chunk
	Ranks     int    // dp ranks, 0 counts as 1; rank r listens on port + r
	Shards    int    // TP shards with streams of their own, 0 counts as 1

	Device         int // > 0
	Host           int // SGLang: written through; vLLM: filled by what the device gives up
	Disk           int // filled by what the host gives up; needs Host
	Pool, PoolDisk int // cache-owner pool: memory, storage behind it
	Running        int // requests whose blocks are pinned, 0 counts as 2
	ResetEvery     int // requests between two cache resets, 0: never
	PrivateNames   bool
	WideNames      bool // names of 32 bytes instead of integers
	Role           string
	HintEndpoint   string // control endpoint of rank 0
}

// Config describes a fleet.
type Config struct {
	// Engines of the fleet; nil stands for Default.
	Engines []Engine
	// Host is where the publishers listen; "" is 127.0.0.1.
	Host string
	// Seed makes the engines' choices repeatable.
	Seed uint64
	// Retention is the number of sequences a stream's history keeps, 0 counts
	// as 4,096. Answers about older ones cannot be judged.
	Retention int
	// Queue is the number of requests that wait at a shard before Submit
	// does, 0 counts as 32.
	Queue int
	// Break falsifies what is published.
	Break Break
	// Loss loses messages on the way; what happened, and the truth, are not
	// touched by it.
	Loss Loss
	// Replay gives every stream a replay endpoint that keeps its last so many
	// batches. 0: there is none.
	Replay int
}

// Loss says what is lost between a publisher and its subscribers. The chances
// are per batch; 0 means never.
type Loss struct {
	// Gap begins a run of 1 … GapMax batches that are not sent.
	Gap    float64
	GapMax int
	// Cut breaks all connections of the stream, with whatever is under way.
	Cut float64
	// Replay is the chance that a replay drops what it sends from somewhere in
	// its middle on, for a while, and sends its end marker all the same.
	Replay float64
}

// Default is a fleet of variety: both engine families, arrays and maps, one
// and two TP shards, one and two dp ranks, two block sizes, device, host and
// disk, pools with memory and storage, engines that may exchange hints and
// engines that may not.
func Default() []Engine {
	return []Engine{
		{ID: "vllm-a", Model: "demo", Dialect: VLLMMap, Protocol: Residency, BlockSize: 16,
			Device: 8000, Pool: 5000, PoolDisk: 4000, PrivateNames: true, ResetEvery: 1201,
			Role: "aggregated", HintEndpoint: "tcp://127.0.0.1:23280"},
		{ID: "vllm-b", Model: "demo", Dialect: VLLMMap, Protocol: Residency, BlockSize: 16, Shards: 2,
			Device: 5000, Pool: 12000, PrivateNames: true,
			Role: "aggregated", HintEndpoint: "tcp://127.0.0.1:23290"},
		{ID: "sglang-a", Model: "demo", Dialect: SGLangMap, Protocol: HiCache, BlockSize: 16, Shards: 2,
			Device: 4000, Host: 12000, Pool: 4000, ResetEvery: 1501,
			Role: "aggregated", HintEndpoint: "tcp://127.0.0.1:23300"},
		{ID: "sglang-b", Model: "demo", Dialect: SGLangMap, Protocol: HiCache, BlockSize: 32,
			Device: 2500, Host: 4000, Disk: 3000, Pool: 8000, PoolDisk: 2000,
			Role: "aggregated", HintEndpoint: "tcp://127.0.0.1:23310"},
		{ID: "sglang-c", Model: "demo", Dialect: SGLangMap, Protocol: HiCache, BlockSize: 16,
			Device: 6000, Pool: 16000, Role: "aggregated"}, // a pool nobody can dial
		{ID: "vllm-c", Model: "demo", Dialect: VLLMArray12, BlockSize: 16, Ranks: 2,
			Device: 4000, Host: 5000, Disk: 4000, PrivateNames: true,
			Role: "aggregated", HintEndpoint: "tcp://127.0.0.1:23320"},
		{ID: "vllm-d", Model: "demo", Dialect: VLLMArray8, BlockSize: 16,
			Device: 8000, PrivateNames: true, WideNames: true, ResetEvery: 1003},
		{ID: "sglang-d", Model: "demo", Dialect: SGLangArray, BlockSize: 32,
			Device: 3000, Host: 10000, Role: "prefill", HintEndpoint: "tcp://127.0.0.1:23330"},
		{ID: "plain-a", Model: "plain", Dialect: VLLMMap, BlockSize: 16, Device: 5000, PrivateNames: true},
		{ID: "plain-b", Model: "plain", Dialect: SGLangMap, BlockSize: 16, Device: 4000, Host: 6000},
	}
}

// complete fills in defaults and refuses what cannot be simulated.
func (e *Engine) complete() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("fleet: engine %q: %s is %v; %s", e.ID, field, value, want)
	}
	if e.Protocol == "" {
		e.Protocol = Framework
	}
	e.Ranks, e.Shards, e.Running = max(e.Ranks, 1), max(e.Shards, 1), max(e.Running, 0)
	if e.Running == 0 {
		e.Running = 2
	}
	switch {
	case e.ID == "":
		return bad("ID", `""`, "every engine needs one")
	case e.Model == "":
		return bad("Model", `""`, "every engine serves one")
	case e.Dialect >= numDialects:
		return bad("Dialect", uint8(e.Dialect), "it is one of the named constants")
	case e.BlockSize <= 0 || e.BlockSize%Chunk != 0 || TokensPerID%e.BlockSize != 0:
		return bad("BlockSize", e.BlockSize, fmt.Sprintf("it is a multiple of %d that divides %d", Chunk, TokensPerID))
	case e.Device <= 0:
		return bad("Device", e.Device, "it is at least one block")
	case e.Ranks > 64 || e.Shards > 16:
		return bad("Ranks or Shards", [2]int{e.Ranks, e.Shards}, "there are at most 64 ranks and 16 shards")
	case e.Disk > 0 && e.Host <= 0:
		return bad("Disk", e.Disk, "it needs a host tier in front of it")
	case !slices.Contains([]string{Framework, Residency, HiCache}, e.Protocol):
		return bad("Protocol", e.Protocol, "it is one of the named constants")
	case e.Pool > 0 && (e.Protocol == Framework || !e.Dialect.owned()):
		return bad("Pool", e.Pool, "it needs a protocol with owned residency and a dialect that carries ownership")
	case e.PoolDisk > 0 && e.Pool <= 0:
		return bad("PoolDisk", e.PoolDisk, "it needs a pool in front of it")
	case e.WideNames && e.Dialect.sglang():
		return bad("WideNames", true, "only vLLM publishes names as bytes")
	}
	return nil
}
