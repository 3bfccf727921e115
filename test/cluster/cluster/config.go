// Package cluster runs a real Kubernetes of one or more nodes on one Linux
// machine, for tests: Up, use, Down. There is one cluster on a machine at a
// time, and it lives until Down, in whichever process: Up in one program and
// Open in the next is the usual way to work on it by hand.
package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"outrigger.dev/test/cluster/internal/image"
	"outrigger.dev/test/cluster/internal/plan"
)

// BusyboxImage is the name of an image with busybox, present on every node.
const BusyboxImage = image.BusyboxName

// busybox is where Debian's package busybox-static puts its program.
const busybox = "/bin/busybox"

// Config says what cluster to run.
type Config struct {
	// Nodes counts all nodes; zero means 1. The first one is the control plane
	// and a worker at once.
	Nodes int
	// GPUNodes counts the nodes with simulated GPUs. They are the last ones.
	GPUNodes int
	// GPUs counts the GPUs of each such node; zero means 8.
	GPUs int
	// Model is the GPUs' model, in the words of gpu-sim; empty means a100-40.
	Model string
	// BinDir is the folder of the project's programs: cluster, gpu-sim, and the
	// folder cluster-components.
	BinDir string
	// Progress gets a line per step; nil means none.
	Progress io.Writer
}

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	if c.Nodes == 0 {
		c.Nodes = 1
	}
	if c.GPUNodes > 0 && c.GPUs == 0 {
		c.GPUs = 8
	}
	if c.GPUNodes > 0 && c.Model == "" {
		c.Model = "a100-40"
	}
	if c.GPUNodes == 0 {
		c.GPUs, c.Model = 0, ""
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c
}

func (c Config) shape() plan.Shape {
	return plan.Shape{Nodes: c.Nodes, GPUNodes: c.GPUNodes, GPUs: c.GPUs, Model: c.Model}
}

// Validate reports everything that keeps the cluster from coming up here.
func (c Config) Validate() error {
	return errors.Join(c.shape().Validate(), checkRoot(), checkTools(), c.checkPrograms())
}

func checkRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("make namespaces and mounts: not root: run this as root")
	}
	return nil
}

// checkTools looks for the programs that come from the distribution's packages.
func checkTools() error {
	var errs []error
	for tool, pkg := range map[string]string{"nft": "nftables", "nsenter": "util-linux", busybox: "busybox-static"} {
		if _, err := exec.LookPath(tool); err != nil {
			errs = append(errs, fmt.Errorf("find %s: %w: install the package %s", tool, err, pkg))
		}
	}
	return errors.Join(errs...)
}

// checkPrograms looks for the programs that are built here.
func (c Config) checkPrograms() error {
	programs := []string{"cluster"}
	for _, name := range []string{"kubernetes", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "pause", "cni/ptp", "cni/host-local", "cni/loopback", "cni/portmap"} {
		programs = append(programs, filepath.Join(componentFolder, name))
	}
	if c.GPUNodes > 0 {
		programs = append(programs, "gpu-sim")
	}
	var errs []error
	for _, name := range programs {
		if _, err := exec.LookPath(filepath.Join(c.BinDir, name)); err != nil {
			errs = append(errs, fmt.Errorf("find program: %w: build it with make, and name the folder it is in as BinDir", err))
		}
	}
	return errors.Join(errs...)
}
