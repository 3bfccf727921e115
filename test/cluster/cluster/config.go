// Package cluster runs a real Kubernetes cluster of one or more nodes on one Linux machine, for
// tests. Up starts it and Down removes it. A machine has one cluster at a time. The cluster runs
// until any process calls Down: to work with a cluster by hand, call Up in one program and Open in
// the next.
package cluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/test/cluster/internal/image"
	"outrigger.dev/test/cluster/internal/plan"
)

// BusyboxImage is the name of an image with busybox, present on every node.
const BusyboxImage = image.BusyboxName

// NeverReady is a name prefix. Pods do not get ready on kwok's Nodes with this prefix.
const NeverReady = "never-ready-"

// busybox is the program of Debian's package busybox-static.
const busybox = "/bin/busybox"

// Config describes a cluster.
type Config struct {
	// Nodes is the number of all nodes; zero means 1. The first one is both the control
	// plane and a worker.
	Nodes int
	// GPUNodes is the number of nodes with simulated GPUs. They are the last nodes.
	GPUNodes int
	// GPUs is the number of GPUs of each GPU node; zero means 8.
	GPUs int
	// Model is the name of the GPU model in gpu-sim; empty means a100-40.
	Model string
	// Bare starts the GPU nodes without a driver: without its files and device nodes, on a
	// simulated kernel that loads modules ("gpu-sim kernel").
	Bare bool
	// Kwok starts only the control plane and kwok. kwok plays the kubelets of the Nodes that the
	// user creates with the annotation kwok.x-k8s.io/node=fake. Pods get ready on them at once,
	// except on Nodes with the name prefix NeverReady.
	Kwok bool
	// CRIONodes is the number of nodes whose container engine is CRI-O instead of containerd. They
	// are the last nodes.
	CRIONodes int
	// Images are image archives. Every node imports them while Kubernetes starts.
	Images []string
	// BinDir is the folder with the project's programs: cluster, gpu-sim, and the folder
	// cluster-components.
	BinDir string
	// Progress gets one line per step; nil means no output.
	Progress io.Writer
}

// withDefaults returns c with defaults for unset fields.
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
	return plan.Shape{Nodes: c.Nodes, GPUNodes: c.GPUNodes, GPUs: c.GPUs, Model: c.Model, Bare: c.Bare, CRIONodes: c.CRIONodes, Kwok: c.Kwok}
}

// Validate reports everything that prevents the cluster from starting here.
func (c Config) Validate() error {
	return errors.Join(c.shape().Validate(), checkRoot(), c.checkTools(), c.checkPrograms())
}

func checkRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("create namespaces and mounts: not root: run this as root")
	}
	return nil
}

// checkTools checks for programs of the distribution's packages.
func (c Config) checkTools() error {
	tools := map[string]string{"nft": "nftables", "nsenter": "util-linux", busybox: "busybox-static"}
	if c.CRIONodes > 0 {
		tools["conmon"] = "conmon"
	}
	var errs []error
	for tool, pkg := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			errs = append(errs, fmt.Errorf("find %s: %w: install the package %s", tool, err, pkg))
		}
	}
	return errors.Join(errs...)
}

// componentPrograms returns the programs of components that the nodes run.
func (c Config) componentPrograms() []string {
	if c.Kwok {
		return []string{"kubernetes", "kwok", "kwok-stages.yaml"}
	}
	names := []string{"kubernetes", "runc", "pause", "cni/ptp", "cni/host-local", "cni/loopback", "cni/portmap"}
	if c.CRIONodes < c.Nodes {
		names = append(names, enginePrograms(plan.Containerd)...)
	}
	if c.CRIONodes > 0 {
		names = append(names, enginePrograms(plan.CRIO)...)
	}
	return names
}

// checkPrograms checks for programs that are built here.
func (c Config) checkPrograms() error {
	programs := []string{"cluster"}
	for _, name := range c.componentPrograms() {
		programs = append(programs, filepath.Join(componentFolder, name))
	}
	if c.GPUNodes > 0 {
		programs = append(programs, "gpu-sim")
	}
	var missing, fixes []string
	for _, name := range programs {
		if _, err := os.Stat(filepath.Join(c.BinDir, name)); err != nil {
			missing = append(missing, name)
			if fix := c.build(filepath.Base(name)); !slices.Contains(fixes, fix) {
				fixes = append(fixes, fix)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s has no %s; in the folder of the repository, run: %s", c.BinDir, strings.Join(missing, ", "), strings.Join(fixes, " && "))
}

// build returns the command that builds a program.
func (c Config) build(program string) string {
	component := ""
	switch {
	case slices.Contains(enginePrograms(plan.CRIO), program):
		component = "crio"
	case strings.HasPrefix(program, "kwok"):
		component = "kwok"
	default:
		return "make cluster"
	}
	return fmt.Sprintf("tools/download.sh test/cluster/components/%s && test/cluster/build.sh %s %[1]s", component, filepath.Join(c.BinDir, componentFolder))
}
