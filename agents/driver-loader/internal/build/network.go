package build

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"outrigger.dev/pkg/hostfs"
)

// Network has the headers of the driver of network adapters: MOFED, or its successor DOCA. With them,
// nvidia_peermem is built alone, so that the adapters access the memory of GPUs.
type Network struct {
	// Base is the folder ofa_kernel. Dir is its folder for the kernel. They are "" without headers.
	Base, Dir string
	// ID identifies the driver by a digest of its symbols. It is "" without headers.
	ID string
}

const (
	// NVIDIA's sources look for the headers in the folder networkLink.
	networkLink = "/usr/src/ofa_kernel"
	// maxSymvers is the largest size of a Module.symvers, in bytes.
	maxSymvers = 64 << 20
)

// Network returns the headers that the driver container of network adapters leaves on the host, for a kernel.
// It tries the folders in the order of NVIDIA's sources (nvidia-peermem.Kbuild). Without headers, it returns the zero value.
func (p Places) Network(release, machine string) Network {
	base := filepath.Join(cmp.Or(p.Mellanox, filepath.Join(p.root(), "run/mellanox/drivers")), "usr/src/ofa_kernel")
	for _, dir := range []string{filepath.Join(machine, release), release, "default"} {
		data, err := hostfs.ReadFile(filepath.Join(base, dir, "Module.symvers"), maxSymvers)
		if err == nil {
			sum := sha256.Sum256(data)
			return Network{Base: base, Dir: filepath.Join(base, dir), ID: hex.EncodeToString(sum[:8])}
		}
	}
	return Network{}
}

// variables returns the variables for make. The scripts of NVIDIA that test the kernel look only in
// networkLink, so variables also links the headers there in a container, as NVIDIA's driver container does.
func (n Network) variables(container bool) []string {
	if n.ID == "" {
		return nil
	}
	if container {
		if _, err := os.Lstat(networkLink); errors.Is(err, fs.ErrNotExist) {
			// Without the link, nvidia_peermem does not work, which is reported when it is loaded.
			_ = os.Symlink(n.Base, networkLink)
		}
	}
	return []string{"OFA_DIR=" + n.Base}
}
