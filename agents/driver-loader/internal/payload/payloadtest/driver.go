// Package payloadtest makes drivers for tests: folders and archives in NVIDIA's format, with small files.
package payloadtest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/md5" //nolint:gosec // the checksum that these archives have
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"outrigger.dev/pkg/ldso/ldsotest"
)

// Driver describes a driver to make.
type Driver struct {
	Version string
	// Suffix is the rest of the version in the names of the archive and of its folder, such as -grid.
	Suffix string
	// Machine is the architecture of the libraries, x86_64 by default.
	Machine elf.Machine
	// Sources is a folder with sources of the open modules, in the form of NVIDIA's kernel-open. If
	// empty, the driver has two files that cannot be built.
	Sources string
}

// Folder writes the content of the driver's archive, and returns the folder.
func (d Driver) Folder(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "NVIDIA-Linux-x86_64-"+d.Version+d.Suffix)
	for name, content := range d.files() {
		mode := fs.FileMode(0o644)
		if !strings.Contains(name, ".") {
			mode = 0o755
		}
		Write(t, filepath.Join(dir, name), content, mode)
	}
	if d.Sources != "" {
		if err := os.CopyFS(filepath.Join(dir, "kernel-open"), os.DirFS(d.Sources)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (d Driver) files() map[string]string {
	library := func(soname string) string {
		return string(ldsotest.Library(cmp.Or(d.Machine, elf.EM_X86_64), soname))
	}
	files := map[string]string{
		".manifest":                           d.manifest(),
		"nvidia-smi":                          "#!/bin/sh\n",
		"nvidia-persistenced":                 "#!/bin/sh\n",
		"nvidia-modprobe":                     "#!/bin/sh\n",
		"nvidia-installer":                    "#!/bin/sh\n",
		"libcuda.so." + d.Version:             library("libcuda.so.1"),
		"libnvidia-ml.so." + d.Version:        library("libnvidia-ml.so.1"),
		"libnvidia-egl-gbm.so.1.1.2":          library("libnvidia-egl-gbm.so.1"),
		"libnvidia-allocator.so." + d.Version: library("libnvidia-allocator.so.1"),
		"libvdpau_nvidia.so." + d.Version:     library("libvdpau_nvidia.so.1"),
		"32/libcuda.so." + d.Version:          "32-bit",
		"firmware/gsp_ga10x.bin":              "firmware of " + d.Version,
		"nvidia_icd.json":                     "{}\n",
		"nvidia.icd":                          "libnvidia-opencl.so.1\n",
		"README.txt":                          "read me\n",
		"future.dat":                          "of a later driver\n",
		"kernel/Makefile":                     "modules:\n",
		"kernel/nvidia/nv.c":                  "MODULE_LICENSE(\"NVIDIA\");\n",
	}
	if d.Sources == "" {
		files["kernel-open/Makefile"] = "modules:\n"
		files["kernel-open/nvidia/nv.c"] = "MODULE_LICENSE(\"Dual MIT/GPL\");\n"
	}
	return files
}

// manifest returns the manifest in the format of nvidia-installer: eight lines, and the files.
func (d Driver) manifest() string {
	return strings.ReplaceAll(`NVIDIA Accelerated Graphics Driver for Linux-x86_64
VERSION
 
nvidia nvidia-uvm nvidia-modeset nvidia-drm nvidia-peermem 
 
 
./kernel/
./kernel/precompiled/
kernel/Makefile 0644 KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:resman
kernel/nvidia/nv.c 0644 KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:resman
nvidia-smi 0755 UTILITY_BINARY MODULE:nvml
nvidia-persistenced 0755 UTILITY_BINARY MODULE:nvpd
nvidia-installer 0755 INSTALLER_BINARY MODULE:installer
nvidia-modprobe 04755 NVIDIA_MODPROBE /usr/bin/ MODULE:installer
libnvidia-ml.so.VERSION 0755 CUDA_LIB NATIVE / MODULE:nvml
libnvidia-ml.so.1 0000 CUDA_SYMLINK NATIVE / libnvidia-ml.so.VERSION MODULE:nvml
libcuda.so.VERSION 0755 CUDA_LIB NATIVE / MODULE:gpgpu
libcuda.so.1 0000 CUDA_SYMLINK NATIVE / libcuda.so.VERSION MODULE:gpgpu
libcuda.so 0000 CUDA_SYMLINK NATIVE / libcuda.so.1 MODULE:gpgpu
32/libcuda.so.VERSION 0755 CUDA_LIB COMPAT32 / MODULE:compat32
32/libcuda.so.1 0000 CUDA_SYMLINK COMPAT32 / libcuda.so.VERSION MODULE:compat32
libnvidia-egl-gbm.so.1.1.2 0755 OPENGL_LIB NATIVE MODULE:egl
libnvidia-allocator.so.VERSION 0755 UTILITY_LIB NATIVE MODULE:opengl
nvidia-drm_gbm.so 0000 GBM_BACKEND_LIB_SYMLINK NATIVE libnvidia-allocator.so.VERSION MODULE:opengl
libvdpau_nvidia.so.VERSION 0755 VDPAU_LIB NATIVE vdpau/ MODULE:vdpau
libvdpau_nvidia.so.1 0000 VDPAU_SYMLINK NATIVE vdpau/ libvdpau_nvidia.so.VERSION MODULE:vdpau
firmware/gsp_ga10x.bin 0644 FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp
nvidia_icd.json 0644 VULKAN_ICD_JSON icd.d/ MODULE:vulkan
nvidia.icd 0444 CUDA_ICD MODULE:gpgpu
README.txt 0444 DOCUMENTATION NVIDIA_GLX-1.0/ MODULE:installer
future.dat 0644 FUTURE_TYPE some where MODULE:installer
`, "VERSION", d.Version)
}

// Write writes a file, and creates its parent folders.
func Write(t testing.TB, path, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// Tar returns the content of a folder as a tar archive.
func Tar(t testing.TB, dir string) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

// Compress compresses data with xz, zstd or gzip, the programs for .run archives, or returns it unchanged.
func Compress(t testing.TB, with string, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch with {
	case "xz":
		w, err = xz.WriterConfig{NoCheckSum: true}.NewWriter(&out)
	case "zstd":
		w, err = zstd.NewWriter(&out)
	case "gzip":
		w = gzip.NewWriter(&out)
	default:
		return data
	}
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Run returns a .run archive with a compressed tar archive: a makeself script, a decompressor, and the tar
// archive.
func Run(version, machine string, compressed []byte) []byte {
	const decompressor = "\x7fELF a program\nwith two lines\n"
	checked := fmt.Sprintf(`skip=SKIP
skip_decompress=12
size_decompress=2
label="NVIDIA Accelerated Graphics Driver for Linux-%[2]s %[1]s"
version_string=%[1]s
pkg_version=
script=./nvidia-installer
targetdir="NVIDIA-Linux-%[2]s-%[1]s"
TARGET_OS="Linux"
TARGET_ARCH="%[2]s"
exit 3
`, version, machine) + decompressor
	checked = strings.Replace(checked, "SKIP", fmt.Sprint(strings.Count(checked, "\n")+4), 1) + string(compressed)
	sum := md5.Sum([]byte(checked)) //nolint:gosec // the checksum that these archives have
	return []byte("#! /bin/sh\nCRCsum=0000000000\nMD5=" + hex.EncodeToString(sum[:]) + "\n" + checked)
}

// Archive writes the driver as a .run archive, and returns its path.
func (d Driver) Archive(t testing.TB, compression string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "NVIDIA-Linux-x86_64-"+d.Version+d.Suffix+".run")
	Write(t, path, string(Run(d.Version+d.Suffix, "x86_64", Compress(t, compression, Tar(t, d.Folder(t))))), 0o755)
	return path
}
