// Package facts stores facts about the GPUs of a CDI spec: the versions of driver and CUDA, and the
// architecture and brand of each GPU. NVIDIA_REQUIRE_* sets conditions for them. The generator
// writes them to a file beside the spec, because only NVML knows them. The runtime shim reads them
// when it starts a container. Annotations of the CDI spec could carry the facts, but older readers
// reject a spec with annotations.
package facts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/hostfs"
)

// Facts holds the facts about the GPUs of one CDI spec.
type Facts struct {
	// Spec is the SHA-256 sum of the spec's file, in hexadecimal digits.
	Spec string `json:"spec"`
	// Driver is the version of the kernel driver: "580.95.05".
	Driver string `json:"driver"`
	// CUDA is the newest CUDA version that the driver supports, "13.0", or empty if
	// it is not known.
	CUDA string `json:"cuda,omitempty"`
	GPUs []GPU  `json:"gpus,omitempty"`
}

// GPU has the facts of one GPU.
type GPU struct {
	// Names are the names that the spec has for this GPU and for its MIG devices.
	Names []string `json:"names"`
	// Arch is the compute capability, "9.0", or empty if it is not known.
	Arch string `json:"arch,omitempty"`
	// Brand is the brand in the spelling of NVIDIA_REQUIRE_*, "tesla", or empty if it is
	// not known.
	Brand string `json:"brand,omitempty"`
}

// ForDevice returns the GPUs that are, or that contain, the device with a name in the spec. For
// the device "all", it returns all GPUs.
func (f *Facts) ForDevice(device string) []GPU {
	var out []GPU
	for _, g := range f.GPUs {
		if device == "all" || slices.Contains(g.Names, device) {
			out = append(out, g)
		}
	}
	return out
}

// Derive returns the facts of a node. names is a function that returns the names in the spec for a
// GPU and its MIG devices.
func Derive(n *gpu.Node, names func(*gpu.GPU) []string) *Facts {
	f := &Facts{Driver: n.Driver.Version, CUDA: version(n.Driver.CUDA)}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		is := GPU{Names: names(g), Arch: version(g.ComputeCapability), Brand: brand(g.Brand)}
		// NVML answers "unknown" for a GPU that is newer than the library.
		if is.Brand == "" && n.Driver.NVMLVersion != "" {
			is.Brand = "unknown"
		}
		f.GPUs = append(f.GPUs, is)
	}
	return f
}

func version(v gpu.Version) string {
	if v == (gpu.Version{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// brand returns a brand of package gpu in the spelling of NVIDIA_REQUIRE_* in CUDA images. The
// brands of virtual GPUs have no vendor there.
func brand(name string) string {
	b := strings.ToLower(name)
	switch short := strings.TrimPrefix(b, "nvidia"); short {
	case "vapps", "vpc", "vcs", "vws", "cloudgaming":
		return short
	}
	return b
}

// maxFacts limits the size of a file of facts, in bytes. The file for 16 GPUs with MIG devices
// is smaller than 32 KiB.
const maxFacts = 1 << 20

// Path returns the path of the facts for a spec file. The facts are beside the spec, with an
// extension that CDI does not read.
func Path(spec string) string {
	for _, ext := range []string{".json", ".yaml"} {
		if base, ok := strings.CutSuffix(spec, ext); ok {
			return base + ".facts"
		}
	}
	return spec + ".facts"
}

// Write writes the facts of the spec at path, unless the file has them already. data is the
// present or future content of the spec.
func Write(path string, data []byte, f *Facts) error {
	stamped := *f
	stamped.Spec = sum(data)
	text, err := json.Marshal(stamped)
	if err != nil {
		return fmt.Errorf("encode facts: %w", err)
	}
	if _, err := hostfs.WriteIfChanged(Path(path), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write facts: %w", err)
	}
	return nil
}

// Read returns the facts of the spec at path with the content data. It returns nil if there are
// no facts for this content, because another program wrote or changed the spec.
func Read(path string, data []byte) (*Facts, error) {
	text, err := hostfs.ReadFile(Path(path), maxFacts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read facts: %w", err)
	}
	var f Facts
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("read facts %s: %w", Path(path), err)
	}
	if f.Spec != sum(data) {
		return nil, nil
	}
	return &f, nil
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
