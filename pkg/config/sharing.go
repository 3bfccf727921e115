package config

// SharingStrategy is a way for several containers to use one device.
type SharingStrategy string

// The sharing strategies, as in the label nvidia.com/gpu.sharing-strategy.
const (
	SharingNone        SharingStrategy = "none"
	SharingTimeSlicing SharingStrategy = "time-slicing"
	SharingMPS         SharingStrategy = "mps"
)

// AutoReplicas stands for one replica for each 1000 MiB of the device's memory.
const AutoReplicas = -1

// Sharing describes the devices to advertise several times or under another name.
type Sharing struct {
	// Strategy is SharingNone if Shares is empty.
	Strategy SharingStrategy
	// FailRequestsGreaterThanOne rejects requests for more than one replica, because a container
	// with several replicas does not get more of the hardware.
	FailRequestsGreaterThanOne bool
	// Shares apply in order. The first Share that selects a device applies to it. A device that no
	// Share selects is advertised once, without another name.
	Shares []Share
}

// Share advertises devices of one resource several times or under another name.
type Share struct {
	// Name is the resource of the devices without sharing, fully qualified: "nvidia.com/gpu", "nvidia.com/mig-3g.20gb".
	Name string
	// Rename is the advertised resource, fully qualified and never empty. It equals Name if the
	// devices keep their name. Shares with the same Rename form one resource.
	Rename string
	// Devices selects devices of the resource Name.
	Devices Selection
	// Replicas is the number of times that each device is advertised: at least 1, or AutoReplicas.
	Replicas int
}

// Selection selects devices of a resource: the first Count devices, the devices in Refs, or all
// devices if neither is set.
type Selection struct {
	Count int
	Refs  []Ref
}

// All reports whether s selects all devices.
func (s Selection) All() bool { return s.Count == 0 && len(s.Refs) == 0 }

// Ref is a user's name for a GPU or a MIG device: "0" and "0:1" (indices of NVML),
// "GPU-…", "MIG-…", "MIG-GPU-…/<gi>/<ci>".
type Ref string

// Resources gives devices names other than nvidia.com/gpu and
// nvidia.com/mig-<profile>. The first pattern that matches wins.
type Resources struct {
	GPUs []Pattern
	MIG  []Pattern
}

// Pattern gives a name to the devices that match it.
type Pattern struct {
	// Pattern is matched against the product name ("NVIDIA A100*"), the UUID
	// ("GPU-5d0e*"), the PCI bus ID ("0000:17:*") and the memory in whole GiB
	// ("80GB") of a GPU, or the profile ("1g.*") and the UUID of a MIG device;
	// "*" stands for any text.
	Pattern string
	// Name is fully qualified.
	Name string
}

// Filter hides devices from the kubelet: all in Exclude and, if Include is not empty, all that are
// not in Include. An entry is a Ref or the text of a Pattern.
type Filter struct {
	Include []string
	Exclude []string
}
