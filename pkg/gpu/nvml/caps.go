package nvml

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"outrigger.dev/pkg/gpu"
)

// capability is what grants access to an instance of a GPU. ci is noCap for the
// GPU instance.
type capability struct{ gpu, gi, ci int }

// fillCaps sets the minors of the capabilities of all MIG devices. One without
// them cannot be given to anybody.
func fillCaps(procRoot string, devices []device) {
	minors := map[capability]int{}
	each(devices, func(g *gpu.GPU, d *gpu.MIGDevice) {
		minors[capability{g.Minor, int(d.GPUInstance), noCap}] = noCap
		minors[capability{g.Minor, int(d.GPUInstance), int(d.ComputeInstance)}] = noCap
	})
	if len(minors) == 0 {
		return
	}
	path := filepath.Join(procRoot, "driver/nvidia-caps/mig-minors")
	err := readCaps(path, minors)
	each(devices, func(g *gpu.GPU, d *gpu.MIGDevice) {
		d.GPUInstanceCap = minors[capability{g.Minor, int(d.GPUInstance), noCap}]
		d.ComputeInstanceCap = minors[capability{g.Minor, int(d.GPUInstance), int(d.ComputeInstance)}]
		switch {
		case d.Fault != nil || d.GPUInstanceCap != noCap && d.ComputeInstanceCap != noCap:
		case err != nil:
			d.Fault = &gpu.Fault{Op: "read MIG capabilities", Reason: err.Error()}
		default:
			d.Fault = &gpu.Fault{
				Op:     "read MIG capabilities",
				Reason: fmt.Sprintf("%s does not list gpu%d/gi%d/ci%d", path, g.Minor, d.GPUInstance, d.ComputeInstance),
			}
		}
	})
}

// each calls f for the MIG devices of GPUs that work of which the instances are
// known.
func each(devices []device, f func(*gpu.GPU, *gpu.MIGDevice)) {
	for i := range devices {
		g := &devices[i].gpu
		if g.Fault != nil || g.MIG == nil {
			continue
		}
		for j := range g.MIG.Devices {
			if d := &g.MIG.Devices[j]; d.GPUInstance != gpu.NoInstance && d.ComputeInstance != gpu.NoInstance {
				f(g, d)
			}
		}
	}
}

// readCaps sets the minors that are asked for. The file lists all that the
// driver could ever use, some thousand.
func readCaps(path string, minors map[capability]int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return parseCaps(f, minors)
}

// parseCaps reads lines like "gpu0/gi1/access 12" and "gpu0/gi1/ci0/access 13".
func parseCaps(r io.Reader, minors map[capability]int) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		rest, c := lines.Bytes(), capability{ci: noCap}
		var ok bool
		if c.gpu, rest, ok = number(rest, "gpu"); !ok {
			continue // of the whole node
		}
		if c.gi, rest, ok = number(rest, "/gi"); !ok {
			continue
		}
		if ci, after, ok := number(rest, "/ci"); ok {
			c.ci, rest = ci, after
		}
		if minor, rest, ok := number(rest, "/access "); ok && len(rest) == 0 {
			if _, asked := minors[c]; asked {
				minors[c] = minor
			}
		}
	}
	return lines.Err()
}

// number cuts a prefix and the number behind it.
func number(line []byte, prefix string) (int, []byte, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(prefix))
	if !ok {
		return 0, line, false
	}
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	n, err := strconv.Atoi(string(rest[:digits]))
	return n, rest[digits:], err == nil
}
