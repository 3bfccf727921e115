package payload

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// kind describes where files of a type are installed in the driver root. The types and their folders are
// defined by nvidia-installer, whose source is public.
type kind struct {
	// dir is the folder, or "" for types that are not installed. A first element "lib" stands for the
	// folder of libraries, and a last element "version" for the driver's version.
	dir string
	// hasPath is set for types whose lines have a path. The path is below dir, unless ignorePath is set.
	hasPath, ignorePath bool
	isLink              bool
}

// kinds returns all types of files in the manifest of NVIDIA's installer. The driver loader does
// not install documentation, files for the desktop or the host's systemd, 32-bit libraries, and
// libraries of other vendors (GLVND, the OpenCL loader), which containers have themselves.
func kinds() map[string]kind {
	all := map[string]kind{
		"VDPAU_LIB":                  {dir: "lib", hasPath: true},
		"GBM_BACKEND_LIB":            {dir: "lib/gbm"},
		"WINE_LIB":                   {dir: "lib/nvidia/wine"},
		"XMODULE_SHARED_LIB":         {dir: "usr/lib/xorg/modules", hasPath: true},
		"GLX_MODULE_SHARED_LIB":      {dir: "usr/lib/xorg/modules", hasPath: true},
		"CUDA_ICD":                   {dir: "etc/OpenCL/vendors"},
		"VULKAN_ICD_JSON":            {dir: "etc/vulkan", hasPath: true},
		"VULKANSC_ICD_JSON":          {dir: "etc/vulkansc", hasPath: true},
		"GLVND_EGL_ICD_JSON":         {dir: "usr/share/glvnd/egl_vendor.d"},
		"EGL_EXTERNAL_PLATFORM_JSON": {dir: "usr/share/egl/egl_external_platform.d"},
		"OPENGL_DATA":                {dir: ".", hasPath: true},
		"EXPLICIT_PATH":              {dir: ".", hasPath: true},
		"NVIDIA_MODPROBE":            {dir: ".", hasPath: true},
		"APPLICATION_PROFILE":        {dir: "usr/share/nvidia", hasPath: true, ignorePath: true},
		"SANDBOXUTILS_FILELIST_JSON": {dir: "usr/share/nvidia/files.d", hasPath: true, ignorePath: true},
		"XORG_OUTPUTCLASS_CONFIG":    {dir: "usr/share/X11/xorg.conf.d"},
		"UTILITY_BINARY":             {dir: "usr/bin"},
		"UTILITY_BIN_SYMLINK":        {dir: "usr/bin", isLink: true},
		"FIRMWARE":                   {dir: "usr/lib/firmware/nvidia/version"},
		"DOCUMENTATION":              {hasPath: true},
		"MANPAGE":                    {hasPath: true},
		"NVIDIA_MODPROBE_MANPAGE":    {hasPath: true},
		"DOT_DESKTOP":                {hasPath: true},
		"ICON":                       {hasPath: true},
		"OPENGL_HEADER":              {hasPath: true},
		"OPENCL_WRAPPER_LIB":         {hasPath: true},
		"OPENCL_WRAPPER_SYMLINK":     {hasPath: true, isLink: true},
		"XMODULE_NEWSYM":             {hasPath: true, isLink: true},
		"GLVND_SYMLINK":              {isLink: true},
		"GLX_CLIENT_SYMLINK":         {isLink: true},
		"EGL_CLIENT_SYMLINK":         {isLink: true},
		"SYSTEMD_UNIT_SYMLINK":       {hasPath: true},
	}
	for names, k := range map[string]kind{
		"OPENGL_LIB UTILITY_LIB NVCUVID_LIB ENCODEAPI_LIB NVIFR_LIB VGX_LIB":                             {dir: "lib"},
		"OPENGL_SYMLINK UTILITY_LIB_SYMLINK NVCUVID_LIB_SYMLINK ENCODEAPI_LIB_SYMLINK NVIFR_LIB_SYMLINK": {dir: "lib", isLink: true},
		"VGX_LIB_SYMLINK": {dir: "lib", isLink: true},
		"CUDA_LIB OPENCL_LIB TLS_LIB GRID_LIB FLEXERA_LIB":                                               {dir: "lib", hasPath: true},
		"CUDA_SYMLINK OPENCL_LIB_SYMLINK VDPAU_SYMLINK TLS_SYMLINK GRID_LIB_SYMLINK FLEXERA_LIB_SYMLINK": {dir: "lib", hasPath: true, isLink: true},
		"GBM_BACKEND_LIB_SYMLINK":                                                                {dir: "lib/gbm", isLink: true},
		"GLX_MODULE_SYMLINK XMODULE_SYMLINK":                                                     {dir: "usr/lib/xorg/modules", hasPath: true, isLink: true},
		"INTERNAL_UTILITY_BINARY INTERNAL_UTILITY_LIB INTERNAL_UTILITY_DATA":                     {dir: "usr/lib/nvidia"},
		"KERNEL_MODULE_SRC KERNEL_MODULE DKMS_CONF INSTALLER_BINARY MODULE_SIGNING_KEY LIBGL_LA": {},
		"GLVND_LIB GLX_CLIENT_LIB EGL_CLIENT_LIB SYSTEMD_UNIT SYSTEMD_SLEEP_SCRIPT":              {},
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = k
		}
	}
	return all
}

// placement describes a file or link in the driver root.
type placement struct {
	// from is the path in the archive, or "" for a link.
	from string
	// to is the path in the driver root.
	to     string
	target string
	mode   fs.FileMode
}

// libraries returns the folder of libraries for an architecture, in Debian's form.
func libraries(machine string) string { return "usr/lib/" + machine + "-linux-gnu" }

// libraryFolders returns the folders of libraries in installed drivers: for the Debian family, the Red Hat family, and
// the packages of Debian itself.
func libraryFolders(machine string) []string {
	return []string{libraries(machine), "usr/lib64", libraries(machine) + "/nvidia/current"}
}

// layout returns the files of the driver root for a manifest and an architecture.
func layout(m manifest, machine string) []placement {
	all := kinds()
	var placed []placement
	for _, e := range m.entries {
		k := all[e.kind]
		// The installer completes templates. They configure X without GLVND.
		if k.dir == "" || e.compat32 || strings.HasSuffix(e.file, ".template") {
			continue
		}
		dir := k.dir
		if below, is := strings.CutPrefix(dir+"/", "lib/"); is {
			dir = path.Join(libraries(machine), below)
		}
		if path.Base(dir) == "version" {
			dir = path.Join(path.Dir(dir), m.version)
		}
		if !k.ignorePath {
			dir = path.Join(dir, strings.TrimPrefix(e.path, "/"))
		}
		p := placement{from: e.file, to: path.Join(dir, path.Base(e.file)), mode: e.mode}
		if k.isLink {
			p.from, p.target = "", e.target
			// The installer makes GBM backends links to a library in the parent folder.
			if e.kind == "GBM_BACKEND_LIB_SYMLINK" {
				p.target = path.Join("..", path.Base(e.target))
			}
		}
		placed = append(placed, p)
	}
	return placed
}

// staysInRoot reports whether a placement stays in the driver root.
func (p placement) staysInRoot() bool {
	return filepath.IsLocal(p.to) && p.to != "." && (p.from == "" || filepath.IsLocal(p.from)) &&
		(p.target == "" || !path.IsAbs(p.target) && filepath.IsLocal(path.Join(path.Dir(p.to), p.target)))
}
