package driverroot

import (
	"path"
	"regexp"
	"strings"
)

// This file is the only table of a driver's parts: the names that Find searches for, and the
// capabilities that need them.

// libraryPart describes a library by the part of its name before ".so".
type libraryPart struct {
	Capabilities
	// names under which programs load the library, in addition to its SONAME. A name with a folder
	// is below the library's folder.
	names []string
	// suffix matches the text after ".so" in the name of a library with a version different from
	// the driver's. It is nil for all others.
	suffix func() *regexp.Regexp
}

var (
	noVersion   = pattern(`^$`)
	oneNumber   = pattern(`^\.\d+$`)
	manyNumbers = pattern(`^\.\d+\.\d+`)
)

// libraryParts returns the libraries by the part of their names before ".so". Find also finds
// libraries of the driver's version that are not in the table, because newer drivers have more.
// Such libraries have no capability.
func libraryParts() map[string]libraryPart {
	parts := map[string]libraryPart{
		"libcuda":                   {Compute, []string{"libcuda.so"}, nil},
		"libnvidia-allocator":       {Compute, []string{"gbm/nvidia-drm_gbm.so"}, nil},
		"libnvidia-nvvm70":          {Compute, nil, oneNumber},
		"libnvidia-opticalflow":     {Video, []string{"libnvidia-opticalflow.so"}, nil},
		"libGLX_nvidia":             {screen, []string{"libGLX_indirect.so.0"}, nil},
		"libnvidia-egl-gbm":         {screen, nil, manyNumbers},
		"libnvidia-egl-wayland":     {screen, nil, manyNumbers},
		"libnvidia-egl-wayland2":    {screen, nil, manyNumbers},
		"libnvidia-egl-xcb":         {screen, nil, manyNumbers},
		"libnvidia-egl-xlib":        {screen, nil, manyNumbers},
		"libnvidia-vulkan-producer": {screen, []string{"libnvidia-vulkan-producer.so"}, nil},
		"libglxserver_nvidia":       {screen, []string{"libglxserver_nvidia.so"}, nil},
		"nvidia_drv":                {screen, nil, noVersion},
	}
	for capabilities, stems := range map[Capabilities]string{
		Utility: "libnvidia-ml libnvidia-cfg libnvidia-nscq",
		Compute: "libcudadebugger libnvidia-opencl libnvidia-gpucomp libnvidia-ptxjitcompiler libnvidia-fatbinaryloader " +
			"libnvidia-compiler libnvidia-pkcs11 libnvidia-pkcs11-openssl3 libnvidia-nvvm libnvidia-tileiras",
		Video: "libvdpau_nvidia libnvidia-encode libnvcuvid",
		screen: "libnvidia-eglcore libnvidia-glcore libnvidia-tls libnvidia-glsi libnvidia-fbc libnvidia-ifr libnvidia-rtcore " +
			"libnvoptix libEGL_nvidia libGLESv2_nvidia libGLESv1_CM_nvidia libnvidia-glvkspirv libnvidia-cbl " +
			"libGL libEGL libGLESv2 libGLESv1_CM",
		NGX: "libnvidia-ngx",
	} {
		for stem := range strings.FieldsSeq(stems) {
			parts[stem] = libraryPart{Capabilities: capabilities}
		}
	}
	return parts
}

// requiredLibraries returns the names, without ".so", of the libraries that containers need to use
// a GPU.
func requiredLibraries() []string { return []string{"libcuda", "libnvidia-ml"} }

// moduleFolders returns the folders of plug-ins: paths below each folder of libraries, and fixed
// paths. The fixed paths are the folders of X servers in distributions.
func moduleFolders() (below, fixed []string) {
	below = []string{"vdpau", "nvidia/xorg"}
	for _, modules := range []string{"modules", "modules/updates"} {
		for _, kind := range []string{"drivers", "extensions"} {
			below = append(below, path.Join("xorg", modules, kind))
			for _, server := range []string{"/usr/lib/xorg", "/usr/lib64/xorg", "/usr/X11R6/lib", "/usr/X11R6/lib64"} {
				fixed = append(fixed, path.Join(server, modules, kind))
			}
		}
	}
	return below, fixed
}

// filePart is a file by its name, or a socket by its possible paths.
type filePart struct {
	Capabilities
	names []string
}

// binaryParts returns the driver's programs. NVIDIA_DRIVER_CAPABILITIES cannot select programs
// without a capability.
func binaryParts() []filePart {
	return []filePart{
		{Utility, []string{"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced"}},
		{Compute, []string{"nvidia-cuda-mps-control", "nvidia-cuda-mps-server"}},
		{0, []string{"nvidia-imex", "nvidia-imex-ctl", "nvidia-xconfig"}},
	}
}

// socketParts returns the sockets of the driver's daemons. If a socket has several paths, the first
// path that exists counts.
func socketParts() []filePart {
	return []filePart{
		{Utility, []string{"/run/nvidia-persistenced/socket", "/var/run/nvidia-persistenced/socket"}},
		{Utility, []string{"/run/nvidia-fabricmanager/socket", "/var/run/nvidia-fabricmanager/socket"}},
	}
}

// mpsFolder holds the pipes of MPS, which the capability compute includes.
const mpsFolder = "/tmp/nvidia-mps"

// isFirmware reports whether a file with this name is firmware that the driver loads into GPUs:
// firmware of their system processor (GSP), or microcode.
func isFirmware(name string) bool {
	return strings.HasSuffix(name, ".bin") && (strings.HasPrefix(name, "gsp") || strings.HasPrefix(name, "ucodes"))
}

// configPart is a set of configuration files and the folder where programs of a container search
// for them.
type configPart struct {
	filePart
	target string
}

// configParts returns the files that configure graphics, OpenCL and X loaders.
func configParts() []configPart {
	icd := "vulkan/icd.d/nvidia_icd." + strings.TrimSuffix(thisArch().triple, "-linux-gnu") + ".json"
	return []configPart{
		{filePart{screen, []string{
			"glvnd/egl_vendor.d/10_nvidia.json",
			"egl/egl_external_platform.d/09_nvidia_wayland2.json",
			"egl/egl_external_platform.d/10_nvidia_wayland.json",
			"egl/egl_external_platform.d/15_nvidia_gbm.json",
			"egl/egl_external_platform.d/20_nvidia_xcb.json",
			"egl/egl_external_platform.d/20_nvidia_xlib.json",
			"nvidia/nvoptix.bin",
			"X11/xorg.conf.d/10-nvidia.conf",
			"X11/xorg.conf.d/nvidia-drm-outputclass.conf",
		}}, "/usr/share"},
		{filePart{screen, []string{
			"vulkan/icd.d/nvidia_icd.json",
			icd,
			"vulkan/icd.d/nvidia_layers.json",
			"vulkan/implicit_layer.d/nvidia_layers.json",
		}}, "/etc"},
		{filePart{Compute, []string{"OpenCL/vendors/nvidia.icd"}}, "/etc"},
	}
}

// controlPart is a device node that all GPUs share.
type controlPart struct {
	name     string
	required bool
}

func controlParts() []controlPart {
	return []controlPart{{"nvidia-modeset", false}, {"nvidia-uvm", true}, {"nvidia-uvm-tools", false}, {"nvidiactl", true}}
}
