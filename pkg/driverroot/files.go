package driverroot

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// binaries finds the driver's programs in the folders of a PATH.
func (r *Root) binaries(missing *MissingError) []File {
	var out []File
	for _, part := range binaryParts() {
		for _, name := range part.names {
			f, ok := r.binary(name, part.Capabilities)
			if ok {
				out = append(out, f)
			} else if name == "nvidia-smi" {
				missing.Optional = append(missing.Optional, name)
			}
		}
	}
	return sortFiles(out)
}

func (r *Root) binary(name string, c Capabilities) (File, bool) {
	for _, dir := range []string{
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/opt/nvidia/bin",
		// Debian, Container-Optimized OS, Bottlerocket and Flatcar
		"/usr/lib/nvidia/current", "/home/kubernetes/bin/nvidia/bin", "/var/lib/nvidia/bin", "/usr/libexec/nvidia/tesla/bin", "/opt/bin",
	} {
		e, err := r.locate(path.Join(dir, name))
		if err == nil && e.info.Mode().IsRegular() && e.info.Mode()&0o111 != 0 {
			return r.file(e, c), true
		}
	}
	return File{}, false
}

// firmware finds the files of the GPU system processor. It uses the first folder of the kernel's
// search path that has such files.
func (r *Root) firmware(version string) []File {
	for _, dir := range r.firmwareDirs() {
		dir = path.Join(dir, "nvidia", version)
		e, err := r.list(dir)
		if err != nil || !e.info.IsDir() {
			continue
		}
		names, err := readNames(r.ctrPathOf(e))
		if err != nil {
			continue
		}
		var out []File
		for _, name := range names {
			if !isFirmware(name) {
				continue
			}
			if e, err := r.locate(path.Join(dir, name)); err == nil && e.info.Mode().IsRegular() {
				out = append(out, r.file(e, EveryCapability))
			}
		}
		if len(out) > 0 {
			return sortFiles(out)
		}
	}
	return nil
}

func (r *Root) firmwareDirs() []string {
	var dirs []string
	// The kernel's search path may start with a folder of the host.
	data, err := os.ReadFile(filepath.Join(r.sys, "module/firmware_class/parameters/path"))
	if p := strings.TrimSpace(string(data)); err == nil && path.IsAbs(p) {
		if rel, ok := relativeTo(r.host, p); ok {
			dirs = append(dirs, path.Join("/", rel))
		}
	}
	base := []string{"/lib/firmware/updates", "/lib/firmware"}
	// On Container-Optimized OS, the installer of the driver brings the firmware.
	others := []string{"/home/kubernetes/bin/nvidia/firmware", "/var/lib/nvidia/firmware"}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		release := unix.ByteSliceToString(u.Release[:])
		base = []string{base[0] + "/" + release, base[0], base[1] + "/" + release, base[1]}
	}
	return slices.Concat(dirs, base, others)
}

// sockets finds the sockets of the driver's daemons and the folder of MPS pipes.
func (r *Root) sockets() []File {
	var out []File
	for _, part := range socketParts() {
		for _, p := range part.names {
			if e, err := r.locate(p); err == nil && e.info.Mode().Type() == fs.ModeSocket {
				out = append(out, r.file(e, part.Capabilities))
				break
			}
		}
	}
	// Containers write to this folder. Every user of the node may create a folder at this path.
	if f, ok := r.ownFolder(mpsFolder, Compute); ok {
		out = append(out, f)
	}
	return sortFiles(out)
}

// ownFolder finds a folder that is mounted into containers as a whole. The folder must have the
// owner of the driver root. It must not be a symbolic link, because a link could lead to any folder
// of the host.
func (r *Root) ownFolder(rel string, c Capabilities) (File, bool) {
	top, err := r.folder("/")
	if err != nil {
		return File{}, false
	}
	dir, name := path.Split(rel)
	parent, err := r.folder(dir)
	if err != nil {
		return File{}, false
	}
	// Outdated checks the folder, but not its entries, which change all the time.
	_, _ = r.folder(rel)
	e := entry{rel: rel, real: path.Join(parent.real, name)}
	if e.info, err = os.Lstat(r.ctrPathOf(e)); err != nil || !e.info.IsDir() || owner(e.info) != owner(top.info) {
		return File{}, false
	}
	return r.file(e, c), true
}

// owner returns the user ID of a file, or -1 if the system has none.
func owner(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Uid)
	}
	return -1
}

// configs finds the configuration files. Their paths in a container do not depend on their folder
// in the driver root.
func (r *Root) configs() []File {
	var out []File
	for _, part := range configParts() {
		for _, name := range part.names {
			if f, ok := r.config(name, part.Capabilities); ok {
				f.Path = path.Join(part.target, name)
				out = append(out, f)
			}
		}
	}
	return sortFiles(out)
}

func (r *Root) config(name string, c Capabilities) (File, bool) {
	// On nodes of Google Kubernetes Engine, the files are in the root itself.
	for _, dir := range append(slices.Clone(r.configDirs), "/etc", "/usr/local/share", "/usr/share", "/") {
		if e, err := r.locate(path.Join(dir, name)); err == nil && e.info.Mode().IsRegular() {
			return r.file(e, c), true
		}
	}
	return File{}, false
}

// sortNodes orders device nodes by path.
func sortNodes(nodes []DeviceNode) {
	slices.SortFunc(nodes, func(a, b DeviceNode) int { return strings.Compare(a.Path, b.Path) })
}
