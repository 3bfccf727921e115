package node

import (
	"path"
	"strings"

	"outrigger.dev/sim/internal/arch"
	"outrigger.dev/sim/internal/elfso"
	"outrigger.dev/sim/internal/tree"
)

// Folders of the driver root.
const (
	driverRoot = "driver"
	libDir     = driverRoot + "/" + arch.Libraries
	binDir     = driverRoot + "/usr/bin"
	fwDir      = driverRoot + "/lib/firmware/nvidia"
)

// library is one library of the driver. In its strings, VER stands for the driver version.
type library struct {
	// file is the name of the file, or its path below the library folder.
	file string
	// soname is the SONAME. If it is empty, it is the name of the file.
	soname string
	// link is the name that a linker searches. If it is empty, the link is not installed.
	link string
}

// libraries returns the libraries of the driver's packages for compute and graphics, without
// libnvidia-ml and libcuda, which the simulator implements. libnvidia-sandboxutils is left
// out, because programs that find it would call it.
func libraries() []library {
	return []library{
		{file: "libnvidia-allocator.so.VER", soname: "libnvidia-allocator.so.1", link: "libnvidia-allocator.so"},
		{file: "libnvidia-cfg.so.VER", soname: "libnvidia-cfg.so.1", link: "libnvidia-cfg.so"},
		{file: "libnvidia-encode.so.VER", soname: "libnvidia-encode.so.1", link: "libnvidia-encode.so"},
		{file: "libnvidia-fbc.so.VER", soname: "libnvidia-fbc.so.1", link: "libnvidia-fbc.so"},
		{file: "libnvidia-ngx.so.VER", soname: "libnvidia-ngx.so.1"},
		{file: "libnvidia-nvvm.so.VER", soname: "libnvidia-nvvm.so.4", link: "libnvidia-nvvm.so"},
		{file: "libnvidia-opencl.so.VER", soname: "libnvidia-opencl.so.1"},
		{file: "libnvidia-opticalflow.so.VER", soname: "libnvidia-opticalflow.so.1", link: "libnvidia-opticalflow.so"},
		{file: "libnvidia-ptxjitcompiler.so.VER", soname: "libnvidia-ptxjitcompiler.so.1", link: "libnvidia-ptxjitcompiler.so"},
		{file: "libnvidia-vksc-core.so.VER", soname: "libnvidia-vksc-core.so.1", link: "libnvidia-vksc-core.so"},
		{file: "libcudadebugger.so.VER", soname: "libcudadebugger.so.1"},
		{file: "libnvcuvid.so.VER", soname: "libnvcuvid.so.1", link: "libnvcuvid.so"},
		{file: "libnvoptix.so.VER", soname: "libnvoptix.so.1"},
		{file: "libEGL_nvidia.so.VER", soname: "libEGL_nvidia.so.0"},
		{file: "libGLESv1_CM_nvidia.so.VER", soname: "libGLESv1_CM_nvidia.so.1"},
		{file: "libGLESv2_nvidia.so.VER", soname: "libGLESv2_nvidia.so.2"},
		{file: "libGLX_nvidia.so.VER", soname: "libGLX_nvidia.so.0"},
		{file: "libnvidia-eglcore.so.VER"},
		{file: "libnvidia-glcore.so.VER"},
		{file: "libnvidia-glsi.so.VER"},
		{file: "libnvidia-glvkspirv.so.VER"},
		{file: "libnvidia-gpucomp.so.VER"},
		{file: "libnvidia-pkcs11.so.VER"},
		{file: "libnvidia-pkcs11-openssl3.so.VER"},
		{file: "libnvidia-present.so.VER"},
		{file: "libnvidia-rtcore.so.VER"},
		{file: "libnvidia-tls.so.VER"},
		{file: "libnvidia-nvvm70.so.4"},
		{file: "libnvidia-egl-gbm.so.1.1.2", soname: "libnvidia-egl-gbm.so.1"},
		{file: "libnvidia-egl-wayland.so.1.1.20", soname: "libnvidia-egl-wayland.so.1"},
		{file: "libnvidia-egl-xcb.so.1.0.3", soname: "libnvidia-egl-xcb.so.1"},
		{file: "libnvidia-egl-xlib.so.1.0.3", soname: "libnvidia-egl-xlib.so.1"},
		{file: "vdpau/libvdpau_nvidia.so.VER", soname: "libvdpau_nvidia.so.1"},
		{file: "nvidia/xorg/libglxserver_nvidia.so.VER", soname: "libglxserver_nvidia.so", link: "libglxserver_nvidia.so"},
		{file: "nvidia/xorg/nvidia_drv.so"},
	}
}

// entries returns the library with its links. If content is nil, the library defines no symbols.
func (l library) entries(version string, content *tree.Entry) ([]tree.Entry, error) {
	file := path.Join(libDir, strings.ReplaceAll(l.file, "VER", version))
	name := path.Base(file)
	soname := l.soname
	if soname == "" {
		soname = name
	}
	e := tree.Entry{Path: file, Mode: 0o644}
	if content != nil {
		e.Copy = content.Copy
	} else {
		data, err := elfso.New(soname)
		if err != nil {
			return nil, err
		}
		e.Data = data
	}
	entries := []tree.Entry{e}
	if soname != name {
		entries = append(entries, tree.Symlink(path.Join(path.Dir(file), soname), name))
	}
	if l.link != "" && l.link != soname {
		entries = append(entries, tree.Symlink(path.Join(path.Dir(file), l.link), soname))
	}
	return entries, nil
}

// simulatedLibraries returns the libraries that the simulator implements.
func simulatedLibraries() []library {
	return []library{
		{file: "libnvidia-ml.so.VER", soname: "libnvidia-ml.so.1", link: "libnvidia-ml.so"},
		{file: "libcuda.so.VER", soname: "libcuda.so.1", link: "libcuda.so"},
	}
}

// driverTree returns the entries of the driver root, as the driver's packages install it.
func driverTree(version, libs, program string) ([]tree.Entry, error) {
	var entries []tree.Entry
	for _, l := range simulatedLibraries() {
		e, err := l.entries(version, &tree.Entry{Copy: path.Join(libs, l.soname)})
		if err != nil {
			return nil, err
		}
		entries = append(entries, e...)
	}
	for _, l := range libraries() {
		e, err := l.entries(version, nil)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e...)
	}
	entries = append(entries,
		tree.Symlink(libDir+"/libGLX_indirect.so.0", "libGLX_nvidia.so."+version),
		tree.Symlink(libDir+"/gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"),
		tree.Entry{Path: binDir + "/nvidia-smi", Mode: 0o755, Copy: program})
	for _, name := range programs() {
		entries = append(entries, tree.Entry{Path: path.Join(binDir, name), Mode: 0o755, Link: binDir + "/nvidia-smi"})
	}
	entries = append(entries,
		// The state comes first, because the library searches for it in the firmware folder.
		tree.Entry{Path: statePath(version), Mode: 0o644, Link: stateFile},
		tree.File(path.Join(fwDir, version, "gsp_ga10x.bin"), firmware),
		tree.File(path.Join(fwDir, version, "gsp_tu10x.bin"), firmware))
	return append(entries, configFiles(version)...), nil
}

// statePath returns the path of the shared state in the driver root. The state looks like a
// firmware file, so that programs treat it like the other firmware.
func statePath(version string) string { return path.Join(fwDir, version, "gsp_sim.bin") }

const firmware = "Firmware of a simulated GPU: holds no code.\n"

// programs returns the other programs of the driver. Packages smi and mps simulate some of
// them, and the others only exist as files.
func programs() []string {
	return []string{"nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-debugdump", "nvidia-persistenced", "nvidia-xconfig"}
}
