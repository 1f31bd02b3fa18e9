package wire

// Tier is where a medium lies.
type Tier uint8

// The tiers, nearest first.
const (
	TierDevice  Tier = iota // GPU, NPU, HBM
	TierHost                // pinned or pageable host memory
	TierDisk                // local disk
	TierShared              // shared or remote storage
	TierUnknown             // a name no table knows; never counts as device

	NumTiers
)

var tierNames = [NumTiers]string{"device", "host", "disk", "shared", "unknown"}

// String returns the lower-case name of t.
func (t Tier) String() string {
	if t < NumTiers {
		return tierNames[t]
	}
	return "invalid"
}

// longestMedium bounds the names the table knows, and the prefix of longer
// ones that it looks at.
const longestMedium = 20

// Medium returns the tier of a medium name, whatever its case. No name (nil,
// absent, empty) is the device: engines older than the field have no other.
func Medium(name []byte) Tier {
	if len(name) == 0 || string(name) == "GPU" { // as nearly all are
		return TierDevice
	}
	var buf [longestMedium]byte
	upper := buf[:copy(buf[:], name)]
	for i, c := range upper {
		if c-'a' < 26 {
			upper[i] = c - ('a' - 'A')
		}
	}
	if len(name) > longestMedium {
		return deviceRepr(upper)
	}
	switch string(upper) {
	case "GPU", "DEVICE", "CUDA", "HBM", "NPU":
		return TierDevice
	case "CPU", "CPU_PINNED", "CPU_TIER1", "HOST", "HOST_PINNED", "DRAM":
		return TierHost
	case "CPU_TIER2", "DISK", "NVME", "SSD", "STORAGE", "FS", "LOCAL_DISK":
		return TierDisk
	case "EXTERNAL", "NETWORK", "REMOTE", "SHARED", "SHARED_STORAGE", "OBJECT_STORE", "OBJ":
		return TierShared
	}
	return deviceRepr(upper)
}

// deviceRepr reads the text that Python makes of a torch device, which older
// connectors send as the medium: device(type='cuda', index=0).
func deviceRepr(upper []byte) Tier {
	const cuda, cpu = "DEVICE(TYPE='CUDA'", "DEVICE(TYPE='CPU'"
	switch {
	case len(upper) >= len(cuda) && string(upper[:len(cuda)]) == cuda:
		return TierDevice
	case len(upper) >= len(cpu) && string(upper[:len(cpu)]) == cpu:
		return TierHost
	}
	return TierUnknown
}
