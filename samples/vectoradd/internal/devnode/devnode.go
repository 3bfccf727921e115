// Package devnode checks NVIDIA's device nodes by opening them, as the driver's libraries do. Most
// CUDA failures are caused by device nodes, and CUDA does not report the cause.
package devnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"
)

// State is the result of opening a device node.
type State struct {
	// Path is the path of the node for the process, for example /dev/nvidia0.
	Path string
	// Err is nil if the node can be opened.
	Err error
}

// Nodes has the states of the nodes that a process with a GPU needs.
type Nodes struct {
	Control State
	UVM     State
	// GPUs is sorted by name. It is empty if no GPU has a node.
	GPUs []State
}

var gpuNode = regexp.MustCompile(`^nvidia[0-9]+$`)

// Check opens every node below root, which is "/" except in tests.
func Check(root string) Nodes {
	dev := filepath.Join(root, "dev")
	nodes := Nodes{
		Control: open(filepath.Join(dev, "nvidiactl")),
		UVM:     open(filepath.Join(dev, "nvidia-uvm")),
	}
	// If the folder cannot be read, Control has the error.
	entries, _ := os.ReadDir(dev)
	for _, entry := range entries {
		if gpuNode.MatchString(entry.Name()) {
			nodes.GPUs = append(nodes.GPUs, open(filepath.Join(dev, entry.Name())))
		}
	}
	return nodes
}

func open(path string) State {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = f.Close()
	}
	return State{Path: path, Err: err}
}

// Fault returns the first problem of the nodes that prevents CUDA from working, with
// the fix. It returns "" if the nodes are not the cause. driverLoaded says that the driver answers: a
// node that no driver serves is then not the cause.
func (n Nodes) Fault(driverLoaded bool) string {
	if len(n.GPUs) == 0 {
		return "there is no node of a GPU (/dev/nvidia0, …): request one for this container " +
			Request() + ", or load the driver on this host"
	}
	for _, state := range []State{n.Control, n.UVM} {
		if state.Err != nil && !(driverLoaded && state.unserved()) {
			return state.fault()
		}
	}
	// One working GPU is enough, because CUDA ignores the others.
	if slices.ContainsFunc(n.GPUs, func(s State) bool { return s.Err == nil || driverLoaded && s.unserved() }) {
		return ""
	}
	return n.GPUs[0].fault()
}

// Request describes, in parentheses, how a container requests a GPU in a pod or in Docker.
func Request() string {
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" { // the kubelet sets it
		return "(resources.limits: nvidia.com/gpu: 1)"
	}
	return "(docker run --gpus 1)"
}

// unserved reports whether no driver serves the node.
func (s State) unserved() bool {
	return errors.Is(s.Err, unix.ENXIO) || errors.Is(s.Err, unix.ENODEV)
}

func (s State) fault() string {
	switch {
	case errors.Is(s.Err, fs.ErrNotExist):
		return fmt.Sprintf("%s is missing: add it to this container, or create it on this host with nvidia-modprobe -c 0 -u", s.Path)
	case errors.Is(s.Err, unix.EPERM):
		return fmt.Sprintf("no permission on %s (EPERM): this container may not use the device; request it "+
			"%s, and if the container has already requested it, restart the container", s.Path, Request())
	case errors.Is(s.Err, unix.EACCES):
		return fmt.Sprintf("no permission on %s (EACCES): user %d cannot read and write it; run as a user of its group, or load the "+
			"nvidia module with NVreg_DeviceFileMode=0666", s.Path, os.Getuid())
	case s.unserved():
		return fmt.Sprintf("%s has no driver: load the nvidia and nvidia_uvm modules on the host", s.Path)
	default:
		return fmt.Sprintf("%v: check the kernel log (dmesg | grep NVRM)", s.Err)
	}
}
