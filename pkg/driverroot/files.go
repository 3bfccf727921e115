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

// binaries finds the driver's programs where a PATH would.
func (r *Root) binaries(missing *MissingError) []File {
	var out []File
	for _, name := range []string{
		"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control",
		"nvidia-cuda-mps-server", "nvidia-imex", "nvidia-imex-ctl", "nvidia-xconfig",
	} {
		i := len(out)
		for _, dir := range []string{
			"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/opt/nvidia/bin",
		} {
			e, err := r.look(path.Join(dir, name))
			if err == nil && e.info.Mode().IsRegular() && e.info.Mode()&0o111 != 0 {
				out = append(out, r.file(e))
				break
			}
		}
		if i == len(out) && name == "nvidia-smi" {
			missing.Optional = append(missing.Optional, name)
		}
	}
	return sortFiles(out)
}

// firmware finds the files of the GPU system processor, in the first of the
// folders in which the kernel looks that has some.
func (r *Root) firmware(version string) []File {
	for _, dir := range r.firmwareDirs() {
		dir = path.Join(dir, "nvidia", version)
		e, err := r.list(dir)
		if err != nil || !e.info.IsDir() {
			continue
		}
		names, err := readNames(r.open(e))
		if err != nil {
			continue
		}
		var out []File
		for _, name := range names {
			if ok, _ := path.Match("gsp*.bin", name); !ok {
				continue
			}
			if e, err := r.look(path.Join(dir, name)); err == nil && e.info.Mode().IsRegular() {
				out = append(out, r.file(e))
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
	// The kernel's own search path may name a folder of the host.
	data, err := os.ReadFile(filepath.Join(r.sys, "module/firmware_class/parameters/path"))
	if p := strings.TrimSpace(string(data)); err == nil && path.IsAbs(p) {
		if rel, ok := below(r.host, p); ok {
			dirs = append(dirs, path.Join("/", rel))
		}
	}
	base := []string{"/lib/firmware/updates", "/lib/firmware"}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		release := unix.ByteSliceToString(u.Release[:])
		base = []string{base[0] + "/" + release, base[0], base[1] + "/" + release, base[1]}
	}
	return append(dirs, base...)
}

// sockets finds the sockets of the driver's daemons and the folder of MPS.
func (r *Root) sockets() []File {
	var out []File
	for _, paths := range [][]string{
		{"/run/nvidia-persistenced/socket", "/var/run/nvidia-persistenced/socket"},
		{"/run/nvidia-fabricmanager/socket", "/var/run/nvidia-fabricmanager/socket"},
	} {
		for _, p := range paths {
			if e, err := r.look(p); err == nil && e.info.Mode().Type() == fs.ModeSocket {
				out = append(out, r.file(e))
				break
			}
		}
	}
	// Containers write to the folder of MPS pipes, and it lies where everybody
	// on the node may write.
	if f, ok := r.ownFolder("/tmp/nvidia-mps"); ok {
		out = append(out, f)
	}
	return sortFiles(out)
}

// ownFolder finds a folder that is mounted into containers as a whole. It
// counts only if it belongs to whom the driver root belongs to, and is no link,
// which could lead to any folder of the host.
func (r *Root) ownFolder(rel string) (File, bool) {
	top, err := r.folder("/")
	if err != nil {
		return File{}, false
	}
	dir, name := path.Split(rel)
	parent, err := r.folder(dir)
	if err != nil {
		return File{}, false
	}
	// That it comes or goes is to be noticed, and not all else that does.
	_, _ = r.folder(rel)
	e := entry{rel: rel, real: path.Join(parent.real, name)}
	if e.info, err = os.Lstat(r.open(e)); err != nil || !e.info.IsDir() || owner(e.info) != owner(top.info) {
		return File{}, false
	}
	return r.file(e), true
}

// owner returns the user ID of a file, -1 where there is none.
func owner(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Uid)
	}
	return -1
}

// configs finds the files that tell graphics, OpenCL and X loaders about the
// driver. They go to fixed places, wherever the driver root has them.
func (r *Root) configs() []File {
	icd := "vulkan/icd.d/nvidia_icd." + strings.TrimSuffix(thisArch().triple, "-linux-gnu") + ".json"
	var out []File
	for target, names := range map[string][]string{
		"/usr/share": {
			"glvnd/egl_vendor.d/10_nvidia.json",
			"egl/egl_external_platform.d/09_nvidia_wayland2.json",
			"egl/egl_external_platform.d/10_nvidia_wayland.json",
			"egl/egl_external_platform.d/15_nvidia_gbm.json",
			"egl/egl_external_platform.d/20_nvidia_xcb.json",
			"egl/egl_external_platform.d/20_nvidia_xlib.json",
			"nvidia/nvoptix.bin",
			"X11/xorg.conf.d/10-nvidia.conf",
			"X11/xorg.conf.d/nvidia-drm-outputclass.conf",
		},
		"/etc": {
			"OpenCL/vendors/nvidia.icd",
			"vulkan/icd.d/nvidia_icd.json",
			icd,
			"vulkan/icd.d/nvidia_layers.json",
			"vulkan/implicit_layer.d/nvidia_layers.json",
		},
	} {
		for _, name := range names {
			if f, ok := r.config(name); ok {
				f.Path = path.Join(target, name)
				out = append(out, f)
			}
		}
	}
	return sortFiles(out)
}

func (r *Root) config(name string) (File, bool) {
	for _, dir := range []string{"/etc", "/usr/local/share", "/usr/share"} {
		if e, err := r.look(path.Join(dir, name)); err == nil && e.info.Mode().IsRegular() {
			return r.file(e), true
		}
	}
	return File{}, false
}

// sortNodes orders device nodes by path.
func sortNodes(nodes []DeviceNode) {
	slices.SortFunc(nodes, func(a, b DeviceNode) int { return strings.Compare(a.Path, b.Path) })
}
