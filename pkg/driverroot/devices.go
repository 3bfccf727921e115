package driverroot

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
)

// devRoot is a folder whose subfolder "dev" holds device nodes.
type devRoot struct {
	host string
	// dev is the path of the folder "dev" for this process.
	dev string
	// searched lists the folders of the host that were searched.
	searched []string
	// seen records the state of each folder that was searched.
	seen map[string]identity
}

// devRoot returns the configured device root. By default, it is the driver root if it has a control
// node, and otherwise "/".
func (r *Root) devRoot() devRoot {
	if r.dev != "" {
		d := devRoot{host: r.dev, dev: path.Join(r.dev, "dev"), seen: r.nodes}
		d.searched = []string{d.dev}
		// The device root "/" is always the host's /dev, independent of the driver root.
		if ctr, ok := r.CtrPathOf(r.dev); r.dev == "/" {
			d.dev = r.hostDev
		} else if ok {
			d.dev = path.Join(ctr, "dev")
		}
		return d
	}
	own := devRoot{host: r.host, dev: path.Join(r.ctr, "dev"), seen: r.nodes}
	own.searched = []string{path.Join(r.host, "dev")}
	if r.host != "/" {
		own.searched = append(own.searched, "/dev")
	}
	if _, ok := own.node("nvidiactl"); ok {
		return own
	}
	host := r.hostRoot()
	host.searched = own.searched
	return host
}

// hostRoot returns the host's own folder of device nodes.
func (r *Root) hostRoot() devRoot {
	return devRoot{host: "/", dev: r.hostDev, searched: []string{"/dev"}, seen: r.nodes}
}

// node returns a character device below dev. It rejects a node or folder that is a symbolic link,
// because a link could lead to any device of the host.
func (d devRoot) node(name string) (DeviceNode, bool) {
	if _, ok := d.folder(path.Dir(name)); !ok {
		return DeviceNode{}, false
	}
	info, err := os.Lstat(filepath.Join(d.dev, name))
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

// folder returns the path of dev itself (".") or of a folder in it, and whether it exists. dev can
// be a symbolic link, but a folder in it cannot.
func (d devRoot) folder(name string) (string, bool) {
	// If the path ends in ".", Lstat follows a link at dev.
	p := d.dev + "/" + name
	id, known := d.seen[p]
	if !known {
		id = identityOf(os.Lstat(p))
		if d.seen != nil {
			d.seen[p] = id
		}
	}
	return p, id.dir
}

// control finds the nodes that all GPU containers share.
func (d devRoot) control(missing *MissingError) []DeviceNode {
	var out []DeviceNode
	for _, c := range controlParts() {
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

// pattern returns a function that compiles a regular expression at its first call. Programs that
// start with each container do not call it, and so do not spend time on the compilation.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var (
	gpuNode  = pattern(`^nvidia(0|[1-9]\d{0,8})$`)
	capNode  = pattern(`^nvidia-cap(0|[1-9]\d{0,8})$`)
	imexNode = pattern(`^channel(0|[1-9]\d{0,8})$`)
)

// nodesByNumber finds the nodes in a folder of dev, by the number in their names.
func (d devRoot) nodesByNumber(folder string, pattern func() *regexp.Regexp) map[int]DeviceNode {
	out := map[int]DeviceNode{}
	name := pattern()
	for _, n := range d.matching(folder, pattern) {
		number, err := strconv.Atoi(name.FindStringSubmatch(path.Base(n.Path))[1])
		if err == nil {
			out[number] = n
		}
	}
	return out
}

// matching finds the nodes in a folder of dev whose names match, in order.
func (d devRoot) matching(folder string, pattern func() *regexp.Regexp) []DeviceNode {
	dir, ok := d.folder(folder)
	if !ok {
		return nil
	}
	names, err := readNames(dir)
	if err != nil {
		return nil
	}
	name := pattern()
	var out []DeviceNode
	for _, base := range names {
		if !name.MatchString(base) {
			continue
		}
		if n, ok := d.node(path.Join(folder, base)); ok {
			out = append(out, n)
		}
	}
	sortNodes(out)
	return out
}

var drmNode = pattern(`/([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/drm/((?:card|renderD)\d+)$`)

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
		m := drmNode().FindStringSubmatch(target)
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
