package driverroot

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// devRoot is a folder whose "dev" holds device nodes.
type devRoot struct {
	host string
	ctr  string
	// searched lists the host's folders that were considered.
	searched []string
}

// devRoot returns the configured device root, or the first of driver root and
// "/" that has a control node.
func (r *Root) devRoot() devRoot {
	if r.dev != "" {
		d := devRoot{host: r.dev, ctr: r.dev, searched: []string{path.Join(r.dev, "dev")}}
		// "/" is where the host's /dev is seen, whatever the driver root is.
		if ctr, ok := r.CtrPathOf(r.dev); ok && r.dev != "/" {
			d.ctr = ctr
		}
		return d
	}
	searched := []string{path.Join(r.host, "dev")}
	if r.host != "/" {
		searched = append(searched, "/dev")
	}
	own := devRoot{host: r.host, ctr: r.ctr, searched: searched}
	if _, ok := own.node("nvidiactl"); ok {
		return own
	}
	return devRoot{host: "/", ctr: "/", searched: searched}
}

// node returns a device node below dev, if it is a character device.
func (d devRoot) node(name string) (DeviceNode, bool) {
	info, err := os.Lstat(filepath.Join(d.ctr, "dev", name))
	if err != nil || info.Mode()&fs.ModeCharDevice == 0 {
		return DeviceNode{}, false
	}
	n := DeviceNode{
		HostPath: path.Join(d.host, "dev", name),
		Path:     path.Join("/dev", name),
		Mode:     info.Mode().Perm(),
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		n.UID, n.GID = st.Uid, st.Gid
	}
	return n, true
}

// control finds the nodes that all GPU containers share.
func (d devRoot) control(missing *MissingError) []DeviceNode {
	var out []DeviceNode
	for _, c := range []struct {
		name     string
		required bool
	}{
		{"nvidia-modeset", false},
		{"nvidia-uvm", true},
		{"nvidia-uvm-tools", false},
		{"nvidiactl", true},
	} {
		n, ok := d.node(c.name)
		switch {
		case ok:
			out = append(out, n)
		case c.required:
			missing.Required = append(missing.Required, Missing{
				What: "device node " + c.name,
				In:   d.searched,
				Fix:  "load the kernel modules nvidia and nvidia-uvm and make their nodes: nvidia-modprobe -c 0 -u",
			})
		default:
			missing.Optional = append(missing.Optional, "device node "+c.name)
		}
	}
	return out
}

var gpuNode = regexp.MustCompile(`^nvidia(\d+)$`)

// gpus finds the GPUs' nodes, by minor number.
func (d devRoot) gpus() map[int]DeviceNode {
	names, err := readNames(filepath.Join(d.ctr, "dev"))
	if err != nil {
		return nil
	}
	out := map[int]DeviceNode{}
	for _, name := range names {
		m := gpuNode.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		minor, err := strconv.Atoi(m[1])
		if n, ok := d.node(name); ok && err == nil {
			out[minor] = n
		}
	}
	return out
}

var drmNode = regexp.MustCompile(`/([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/drm/((?:card|renderD)\d+)$`)

// drm finds the display and render nodes, by the PCI bus ID of their device.
func (d devRoot) drm(sys string) map[string][]DeviceNode {
	class := filepath.Join(sys, "class/drm")
	names, err := readNames(class)
	if err != nil {
		return nil
	}
	out := map[string][]DeviceNode{}
	for _, name := range names {
		target, err := os.Readlink(filepath.Join(class, name))
		if err != nil {
			continue
		}
		m := drmNode.FindStringSubmatch(target)
		if m == nil {
			continue
		}
		if n, ok := d.node(path.Join("dri", m[2])); ok {
			out[m[1]] = append(out[m[1]], n)
		}
	}
	for _, nodes := range out {
		sortNodes(nodes)
	}
	return out
}
