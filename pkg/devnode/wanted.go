// Package devnode makes the device nodes of the NVIDIA driver, and the links in /dev/char through which
// systemd and runc find them. Otherwise, the nodes are missing until a program of NVIDIA makes them as
// root on the host. The package first derives a plan of the changes, and then applies it.
package devnode

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/hostfs"
)

// Node is a character device that should exist.
type Node struct {
	// Name is its path below /dev: "nvidiactl", "nvidia-caps/nvidia-cap1".
	Name         string
	Major, Minor uint32
	Mode         fs.FileMode
	UID, GID     int
	// Fixed is set if the driver forbids to make or change the node. NVIDIA's nvidia-modprobe reads
	// the same settings: ModifyDeviceFiles of the parameters, DeviceFileModify of a capability.
	Fixed bool
}

// Driver is the path of the host's /proc, which shows the nodes that the loaded driver needs.
type Driver string

// maxProc is larger than any file that a Driver reads.
const maxProc = 4 << 20

// ErrNotLoaded is returned while the kernel module nvidia is not loaded.
var ErrNotLoaded = errors.New("the kernel module nvidia is not loaded (load it: modprobe nvidia)")

// Control returns the nodes that all GPUs share: nvidiactl, nvidia-modeset, nvidia-uvm
// and nvidia-uvm-tools.
func (d Driver) Control() ([]Node, error) {
	majors, gpus, err := d.majors()
	if err != nil {
		return nil, err
	}
	node := d.maker()
	out := []Node{node("nvidiactl", gpus, 255), node("nvidia-modeset", gpus, 254)}
	uvm, ok := majors["nvidia-uvm"]
	if !ok {
		return out, errors.New("the kernel module nvidia-uvm is not loaded (load it: modprobe nvidia-uvm)")
	}
	return append(out, node("nvidia-uvm", uvm, 0), node("nvidia-uvm-tools", uvm, 1)), nil
}

// GPUs returns the nodes of the GPUs, and of the capabilities to configure, monitor and
// use MIG instances.
func (d Driver) GPUs() ([]Node, error) {
	majors, gpus, err := d.majors()
	if err != nil {
		return nil, err
	}
	proc, node := driverproc.Root(d), d.maker()
	var out []Node
	for _, id := range proc.BusIDs() {
		g, err := proc.GPU(id)
		if err != nil {
			return nil, err
		}
		if g.Minor != driverproc.NoMinor {
			out = append(out, gpuNode(node, gpus, g))
		}
	}
	if caps, ok := majors["nvidia-caps"]; ok {
		out = append(out, d.capabilities(caps)...)
	}
	return out, nil
}

// GPU returns the node of a GPU, by its bus ID. It reads no other GPU.
func (d Driver) GPU(id string) (Node, error) {
	_, major, err := d.majors()
	if err != nil {
		return Node{}, err
	}
	g, err := driverproc.Root(d).GPU(id)
	if err != nil {
		return Node{}, err
	}
	if g.Minor == driverproc.NoMinor {
		return Node{}, fmt.Errorf("find the device node of GPU %s: the driver does not report its minor number", id)
	}
	return gpuNode(d.maker(), major, g), nil
}

func gpuNode(node func(name string, major, minor uint32) Node, major uint32, g driverproc.GPU) Node {
	return node(fmt.Sprintf("nvidia%d", g.Minor), major, uint32(g.Minor)) //nolint:gosec // it is not negative
}

// Possible returns the nodes of all capabilities that MIG instances can ever have.
func (d Driver) Possible() ([]Node, error) {
	majors, _, err := d.majors()
	if err != nil {
		return nil, err
	}
	major, ok := majors["nvidia-caps"]
	if !ok {
		return nil, nil
	}
	data, err := hostfs.ReadFile(driverproc.Root(d).MIGMinorsPath(), maxProc)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read MIG minors: %w", err)
	}
	var out []Node
	for line := range strings.Lines(string(data)) {
		_, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if minor, err := strconv.ParseUint(number, 10, 20); err == nil {
			out = append(out, capability(major, int(minor), 0o444))
		}
	}
	return out, nil
}

// majors returns the major numbers of character devices by name, and the major number of GPUs.
func (d Driver) majors() (all map[string]uint32, gpus uint32, err error) {
	data, err := hostfs.ReadFile(filepath.Join(string(d), "devices"), maxProc)
	if err != nil {
		return nil, 0, fmt.Errorf("read device numbers: %w", err)
	}
	all = parseMajors(data)
	for _, name := range []string{"nvidia", "nvidia-frontend"} {
		if m, ok := all[name]; ok {
			return all, m, nil
		}
	}
	return nil, 0, ErrNotLoaded
}

// parseMajors reads the lines "195 nvidia" below the line "Character devices:".
func parseMajors(data []byte) map[string]uint32 {
	out := map[string]uint32{}
	character := false
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasSuffix(line, ":") {
			character = line == "Character devices:"
			continue
		}
		number, name, ok := strings.Cut(line, " ")
		major, err := strconv.ParseUint(number, 10, 12)
		if character && ok && err == nil {
			out[strings.TrimSpace(name)] = uint32(major)
		}
	}
	return out
}

// maker returns a function that makes a Node with the permissions in the parameters of the kernel
// module. By default, all users may use it.
func (d Driver) maker() func(name string, major, minor uint32) Node {
	n := Node{Mode: 0o666}
	if data, err := hostfs.ReadFile(filepath.Join(string(d), "driver/nvidia/params"), maxProc); err == nil {
		values := parseNumbers(data)
		if mode, ok := values["DeviceFileMode"]; ok {
			n.Mode = fs.FileMode(mode).Perm() //nolint:gosec // Perm drops all but nine bits
		}
		n.UID, n.GID = values["DeviceFileUID"], values["DeviceFileGID"]
		n.Fixed = isZero(values, "ModifyDeviceFiles")
	}
	return func(name string, major, minor uint32) Node {
		n.Name, n.Major, n.Minor = name, major, minor
		return n
	}
}

// parseNumbers reads lines like "DeviceFileMode: 438".
func parseNumbers(data []byte) map[string]int {
	out := map[string]int{}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(line, ":")
		if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31); err == nil {
			out[key] = int(n)
		}
	}
	return out
}

// isZero reports whether the value exists and is 0.
func isZero(values map[string]int, key string) bool {
	n, ok := values[key]
	return ok && n == 0
}

// capabilities returns the nodes of the capabilities that the driver has now. Each capability has a
// file with its minor number and its mode.
func (d Driver) capabilities(major uint32) []Node {
	root := filepath.Join(string(d), "driver/nvidia/capabilities")
	var out []Node
	for _, pattern := range []string{"mig/config", "mig/monitor", "gpu*/mig/gi*/access", "gpu*/mig/gi*/ci*/access"} {
		files, _ := filepath.Glob(filepath.Join(root, pattern)) // the patterns are valid
		slices.Sort(files)
		for _, file := range files {
			data, err := hostfs.ReadFile(file, maxProc)
			if err != nil {
				continue // the instance has gone
			}
			values := parseNumbers(data)
			if minor, ok := values["DeviceFileMinor"]; ok {
				n := capability(major, minor, fs.FileMode(values["DeviceFileMode"]).Perm()) //nolint:gosec // as above
				n.Fixed = isZero(values, "DeviceFileModify")
				out = append(out, n)
			}
		}
	}
	return out
}

func capability(major uint32, minor int, mode fs.FileMode) Node {
	name := path.Join("nvidia-caps", fmt.Sprintf("nvidia-cap%d", minor))
	return Node{Name: name, Major: major, Minor: uint32(minor), Mode: mode} //nolint:gosec // it is not negative
}
