package config

// SharingStrategy is how several containers use one device.
type SharingStrategy string

// The sharing strategies, as the label nvidia.com/gpu.sharing-strategy has them.
const (
	SharingNone        SharingStrategy = "none"
	SharingTimeSlicing SharingStrategy = "time-slicing"
	SharingMPS         SharingStrategy = "mps"
)

// AutoReplicas offers a device once for each 1000 MiB of its memory.
const AutoReplicas = -1

// Sharing says which devices are offered several times, or under another name.
type Sharing struct {
	// Strategy is SharingNone if Shares is empty.
	Strategy SharingStrategy
	// FailRequestsGreaterThanOne refuses a request for more than one replica:
	// it would not bring more of the hardware than one.
	FailRequestsGreaterThanOne bool
	// Shares are applied in their order. A device belongs to the first one that
	// selects it; one that none selects is offered once, under its own name.
	Shares []Share
}

// Share offers devices of one resource several times, or under another name.
type Share struct {
	// Name is the resource to which the devices belong without sharing, fully
	// qualified: "nvidia.com/gpu", "nvidia.com/mig-3g.20gb".
	Name string
	// Rename is the resource under which they are offered, fully qualified and
	// never empty: it is Name for devices that keep theirs. Devices of several
	// Shares with one Rename are one resource.
	Rename string
	// Devices says which ones.
	Devices Selection
	// Replicas is how often each device is offered: at least 1, or AutoReplicas.
	Replicas int
}

// Selection chooses among the devices of a resource: the first Count of them,
// those in Refs, or all if neither is set.
type Selection struct {
	Count int
	Refs  []Ref
}

// All reports whether the selection is of all devices.
func (s Selection) All() bool { return s.Count == 0 && len(s.Refs) == 0 }

// Ref names a GPU or a MIG device as users do: "0" and "0:1" (indices of NVML),
// "GPU-…", "MIG-…", "MIG-GPU-…/<gi>/<ci>".
type Ref string

// Resources gives devices other names than nvidia.com/gpu and
// nvidia.com/mig-<profile>. The first pattern that matches decides.
type Resources struct {
	GPUs []Pattern
	MIG  []Pattern
}

// Pattern gives a name to the devices that match.
type Pattern struct {
	// Pattern is compared with the product name ("NVIDIA A100*"), the UUID
	// ("GPU-5d0e*"), the PCI bus ID ("0000:17:*") and the memory in whole GiB
	// ("80GB") of a GPU, or the profile ("1g.*") and the UUID of a MIG device;
	// "*" stands for any text.
	Pattern string
	// Name is fully qualified.
	Name string
}

// Filter hides devices from the kubelet. Include empty: all but Exclude. An
// entry is a Ref or a Pattern's text.
type Filter struct {
	Include []string
	Exclude []string
}
