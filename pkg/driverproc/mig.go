package driverproc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// WholeInstance is the ComputeInstance in the capability of a GPU instance.
const WholeInstance = -1

// The minors of the capabilities to change and to monitor the instances of all GPUs, as mig-minors
// lists them. They do not belong to a MIG device.
const (
	MIGConfigMinor  = 1
	MIGMonitorMinor = 2
)

// Capability names the capability that grants access to a MIG instance. GPU is the minor of the
// GPU. ComputeInstance is WholeInstance for the GPU instance itself.
type Capability struct{ GPU, GPUInstance, ComputeInstance int }

// String returns the capability as the driver names it: "gpu0/gi1/ci0".
func (c Capability) String() string {
	if c.ComputeInstance == WholeInstance {
		return fmt.Sprintf("gpu%d/gi%d", c.GPU, c.GPUInstance)
	}
	return fmt.Sprintf("gpu%d/gi%d/ci%d", c.GPU, c.GPUInstance, c.ComputeInstance)
}

// MIGMinors returns the minors of the device nodes /dev/nvidia-caps/nvidia-cap<minor> of
// capabilities. The result has no entry for a capability that the driver does not list.
func (r Root) MIGMinors(caps ...Capability) (map[Capability]int, error) {
	f, err := openRegular(r.MIGMinorsPath())
	if err != nil {
		return nil, fmt.Errorf("read MIG minors: %w", err)
	}
	defer f.Close()
	asked := make(map[Capability]bool, len(caps))
	for _, c := range caps {
		asked[c] = true
	}
	found := make(map[Capability]int, len(caps))
	// The file lists all instances that can ever exist, some thousand.
	limited := &io.LimitedReader{R: f, N: maxMinors}
	lines := bufio.NewScanner(limited)
	for lines.Scan() {
		if c, minor, ok := parseMinor(lines.Bytes()); ok && asked[c] {
			found[c] = minor
		}
	}
	err = lines.Err()
	if err == nil && limited.N == 0 {
		err = errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("read MIG minors %s: %w", r.MIGMinorsPath(), err)
	}
	return found, nil
}

// MIGMinorsPath returns the path of the file that MIGMinors reads.
func (r Root) MIGMinorsPath() string { return r.path("driver/nvidia-caps/mig-minors") }

// parseMinor parses a line like "gpu0/gi1/access 12" or "gpu0/gi1/ci0/access 13". It returns false
// for the lines of the whole node, "config 1" and "monitor 2".
func parseMinor(line []byte) (c Capability, minor int, ok bool) {
	c.ComputeInstance = WholeInstance
	rest := line
	if c.GPU, rest, ok = cutNumber(rest, "gpu"); !ok {
		return c, 0, false
	}
	if c.GPUInstance, rest, ok = cutNumber(rest, "/gi"); !ok {
		return c, 0, false
	}
	if ci, after, ok := cutNumber(rest, "/ci"); ok {
		c.ComputeInstance, rest = ci, after
	}
	minor, rest, ok = cutNumber(rest, "/access ")
	return c, minor, ok && len(rest) == 0
}

// cutNumber cuts a prefix and the number after it.
func cutNumber(line []byte, prefix string) (n int, rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(line, []byte(prefix))
	if !ok {
		return 0, line, false
	}
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	n64, err := strconv.ParseInt(string(rest[:digits]), 10, 32)
	return int(n64), rest[digits:], err == nil
}

// GPUInstances returns the sorted IDs of the current GPU instances of the GPU with this minor, from
// the folders that the driver keeps for them. It does not access the GPU.
func (r Root) GPUInstances(minor int) []uint32 {
	return listNumbers(r.path("driver/nvidia/capabilities", fmt.Sprintf("gpu%d", minor), "mig"), "gi")
}

// ComputeInstances is GPUInstances for the compute instances of a GPU instance.
func (r Root) ComputeInstances(minor int, instance uint32) []uint32 {
	return listNumbers(r.path("driver/nvidia/capabilities", fmt.Sprintf("gpu%d/mig/gi%d", minor, instance)), "ci")
}

// listNumbers returns the numbers in the names of the entries of a folder that have a prefix.
func listNumbers(dir, prefix string) []uint32 {
	var out []uint32
	for _, name := range listNames(dir) {
		if n, rest, ok := cutNumber([]byte(name), prefix); ok && len(rest) == 0 {
			out = append(out, uint32(n))
		}
	}
	slices.Sort(out)
	return out
}
