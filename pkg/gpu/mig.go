package gpu

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync"
)

// MIG is the Multi-Instance state of a GPU.
type MIG struct {
	Enabled bool `json:"enabled"`
	// Pending is the mode after the next reset of the GPU.
	Pending bool `json:"pending"`
	// Devices is ordered by GPU instance, then by compute instance. It is empty if the mode is on
	// but the GPU has no instances.
	Devices []MIGDevice `json:"devices,omitempty"`
	// GPUInstances is ordered by ID. It includes GPU instances without a compute instance.
	GPUInstances []GPUInstance `json:"gpuInstances,omitempty"`
}

// GPUInstance is a part of a GPU with separate memory and engines. Its MIG devices are its compute
// instances. It may have none.
type GPUInstance struct { //nolint:revive // the term of NVML
	ID uint32 `json:"id"`
	// Profile is the profile of a MIG device that has the whole instance. Profile and the size of
	// Placement are zero if the driver does not report them. Some drivers report them only to
	// privileged processes.
	Profile   Profile   `json:"profile"`
	Placement Placement `json:"placement"`
}

// MIGDevice is one compute instance of a GPU, the smallest part that can be allocated. A device
// that does not answer is listed with its Fault.
type MIGDevice struct {
	// UUID as in "MIG-7d1f…".
	UUID UUID `json:"uuid"`
	// Index is the position of the device in NVML's list of the MIG devices of the GPU when an agent
	// first saw it. It stays with the device (package index).
	Index int `json:"index"`
	// Shifted is set if NVML lists the device at another position now.
	Shifted bool `json:"shifted,omitempty"`
	// Alias is added to the name in ResourceSlices, if another MIG device had the usual name first.
	Alias *int `json:"alias,omitempty"`
	// GPUInstance is the ID of the GPU instance on its GPU. ComputeInstance is the ID of the
	// compute instance in it. They are NoInstance if they could not be read of a device with a
	// Fault.
	GPUInstance     uint32  `json:"gpuInstance"`
	ComputeInstance uint32  `json:"computeInstance"`
	Profile         Profile `json:"profile"`
	// Placement is the placement of the GPU instance. Its size is 0 if the driver does not report
	// it. Some drivers report it only to privileged processes.
	Placement   Placement `json:"placement"`
	MemoryBytes uint64    `json:"memoryBytes"`
	Engines     Engines   `json:"engines"`
	// GPUInstanceCap and ComputeInstanceCap are the minors of the device nodes
	// /dev/nvidia-caps/nvidia-cap<minor> that grant access, as in
	// /proc/driver/nvidia-caps/mig-minors. They are -1 if a device with a Fault has no capability.
	GPUInstanceCap     int `json:"gpuInstanceCap"`
	ComputeInstanceCap int `json:"computeInstanceCap"`
	// Fault is nil for a device that works.
	Fault *Fault `json:"fault,omitempty"`
}

// Placement is a range of the memory slices of a GPU.
type Placement struct {
	Start int `json:"start"`
	Size  int `json:"size"`
}

// Overlaps reports whether two known ranges have a slice in common.
func (p Placement) Overlaps(o Placement) bool {
	return p.Size > 0 && o.Size > 0 && p.Start < o.Start+o.Size && o.Start < p.Start+p.Size
}

// Engines counts the parts of a MIG device, as nvmlDeviceGetAttributes_v2 does.
type Engines struct {
	Multiprocessors       int `json:"multiprocessors"`
	GPUInstanceSlices     int `json:"gpuInstanceSlices"`
	ComputeInstanceSlices int `json:"computeInstanceSlices"`
	Copy                  int `json:"copy"`
	Decoder               int `json:"decoder"`
	Encoder               int `json:"encoder"`
	JPEG                  int `json:"jpeg"`
	OFA                   int `json:"ofa"`
}

// Profile is the kind of a MIG device. Its text has the form of nvidia-smi: "1g.5gb", "1c.3g.20gb",
// "1g.10gb+me", "1g.24gb-me".
type Profile struct {
	// ComputeSlices and GPUSlices are equal unless the GPU instance is divided into several compute
	// instances.
	ComputeSlices, GPUSlices int
	// GB is the memory in GiB, rounded as by nvidia-smi.
	GB int
	// Attribute is empty or one of "+me", "+me.all", "+gfx", "-me".
	Attribute string
}

// ProfileGB returns the memory in the text of a profile for a MIG device with mig bytes on a GPU
// with total bytes. nvidia-smi counts the eighths of the GPU that the device needs, and multiplies
// them with the GPU's memory in full GiB.
func ProfileGB(mig, total uint64) int {
	if total == 0 {
		return 0
	}
	eighths := math.Ceil(float64(mig) / float64(total) * 8)
	return int(math.Round(eighths / 8 * math.Ceil(float64(total)/(1<<30))))
}

var profileText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:([1-9])c\.)?([1-9])g\.([1-9][0-9]{0,3})gb(\+me|\+me\.all|\+gfx|-me)?$`)
})

// ParseProfile reads the text of a Profile.
func ParseProfile(text string) (Profile, error) {
	m := profileText().FindStringSubmatch(text)
	if m == nil {
		return Profile{}, fmt.Errorf("%q is not a MIG profile like 1g.5gb, 1c.3g.20gb or 1g.10gb+me", text)
	}
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // the pattern admits only digits, and few
		return n
	}
	p := Profile{GPUSlices: number(m[2]), GB: number(m[3]), Attribute: m[4]}
	p.ComputeSlices = p.GPUSlices
	if m[1] != "" {
		p.ComputeSlices = number(m[1])
	}
	if p.ComputeSlices > p.GPUSlices {
		return Profile{}, fmt.Errorf("%q is not a MIG profile: it has more compute slices than GPU slices", text)
	}
	return p, nil
}

// String returns the text of p, empty for the zero Profile.
func (p Profile) String() string {
	if p == (Profile{}) {
		return ""
	}
	text := fmt.Sprintf("%dg.%dgb%s", p.GPUSlices, p.GB, p.Attribute)
	if p.ComputeSlices != p.GPUSlices {
		text = fmt.Sprintf("%dc.%s", p.ComputeSlices, text)
	}
	return text
}

// MarshalText returns the text of p.
func (p Profile) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the text of a Profile. The text is empty if the profile of the device could
// not be read.
func (p *Profile) UnmarshalText(text []byte) error {
	if p == nil {
		return errors.New("read MIG profile into nothing")
	}
	if len(text) == 0 {
		*p = Profile{}
		return nil
	}
	var err error
	*p, err = ParseProfile(string(text))
	return err
}
