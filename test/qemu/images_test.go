//go:build e2e

package qemu_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/test/qemu"
)

// addImages imports drivers from the layouts of NVIDIA's images into a store. modules are the built modules of 580.95.05.
// The drivers are imported in the order in which the guest loads them.
func addImages(t *testing.T, loader []string, modules, release string) {
	t.Helper()
	same := func(_, module string) string { return module }
	command(t, append(loader, "build", "--source="+guestImage(t, "580.95.09"), "--kernel="+release)...)
	command(t, append(loader, "import", ubuntuImage(t, otherVersion(t, modules, "580.95.10", same), "580.95.10", release))...)
	command(t, append(loader, "import", redHatImage(t, otherVersion(t, modules, "580.95.11", proprietary), "580.95.11", release))...)
}

// guestImage returns the root of an image for virtual machines with virtual GPUs. It has the content of an archive.
func guestImage(t *testing.T, version string) string {
	t.Helper()
	root := driver(t, version, nil)
	image := t.TempDir()
	content := filepath.Join(image, "drivers/NVIDIA-Linux-x86_64-"+version+"-grid")
	put(t, content, os.DirFS(filepath.Join(root, "usr/lib/x86_64-linux-gnu")))
	put(t, filepath.Join(content, "kernel-open"), os.DirFS(filepath.Join(root, "usr/src/nvidia-"+version)))
	write(t, filepath.Join(content, "firmware/gsp_ga10x.bin"), version)
	write(t, filepath.Join(content, ".manifest"), strings.ReplaceAll(`NVIDIA Accelerated Graphics Driver for Linux-x86_64
VERSION
 
nvidia nvidia-uvm nvidia-modeset nvidia-drm nvidia-peermem 
 
 
./kernel/
./kernel/precompiled/
libnvidia-ml.so.VERSION 0755 CUDA_LIB NATIVE / MODULE:nvml
libcuda.so.VERSION 0755 CUDA_LIB NATIVE / MODULE:gpgpu
firmware/gsp_ga10x.bin 0644 FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp
`, "VERSION", version))
	return image
}

// ubuntuImage returns the root of an image with precompiled modules for Ubuntu: Debian packages.
func ubuntuImage(t *testing.T, modules map[string]string, version, release string) string {
	t.Helper()
	image := t.TempDir()
	repository := filepath.Join(image, "usr/local/repos")
	if err := os.MkdirAll(repository, 0o755); err != nil {
		t.Fatal(err)
	}
	pack := func(name string, fill func(root string)) {
		root := t.TempDir()
		fill(root)
		write(t, filepath.Join(root, "DEBIAN/control"), "Package: "+name+"\nVersion: "+version+"\nArchitecture: amd64\nMaintainer: Tests <tests@example.org>\nDescription: a part of the driver\n")
		command(t, "dpkg-deb", "--root-owner-group", "--build", root, filepath.Join(repository, name+"_"+version+"_amd64.deb"))
	}
	pack("libnvidia-compute-580-server", func(root string) { put(t, root, os.DirFS(simulated(t, version))) })
	pack("nvidia-firmware-580-server-"+version, func(root string) {
		write(t, filepath.Join(root, "lib/firmware/nvidia", version, "gsp_ga10x.bin"), version)
	})
	pack("linux-modules-nvidia-580-server-open-"+release, func(root string) {
		for name, module := range modules {
			write(t, filepath.Join(root, "lib/modules", release, "kernel/nvidia-580srv-open", name), module)
		}
	})
	return image
}

// redHatImage returns the root of an image with precompiled modules for the family of Red Hat, without sources.
func redHatImage(t *testing.T, modules map[string]string, version, release string) string {
	t.Helper()
	root := simulated(t, version)
	write(t, filepath.Join(root, "opt/lib/firmware/nvidia", version, "gsp_ga10x.bin"), version)
	for name, module := range modules {
		write(t, filepath.Join(root, "lib/modules", release, "extra/drivers/video/nvidia", name), module)
	}
	return root
}

// buildID is the beginning of the note with the build ID of a module.
const buildID = "\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00"

// otherVersion returns the modules of 580.95.05 in a folder with another version, after a change that keeps their length.
func otherVersion(t *testing.T, modules, version string, change func(name, module string) string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(modules, "*.ko"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	out := map[string]string{}
	for _, file := range files {
		text, name := string(read(t, file)), filepath.Base(file)
		before, id, found := strings.Cut(text, buildID)
		if !found {
			t.Fatalf("%s has no build ID", file)
		}
		// The linker derives the build ID from the content.
		out[name] = change(name, strings.ReplaceAll(before, "580.95.05", version)+buildID+version+strings.ReplaceAll(id[len(version):], "580.95.05", version))
		if len(out[name]) != len(text) {
			t.Fatalf("the change of %s has another length", file)
		}
	}
	return out
}

// proprietary returns a module with the license of NVIDIA's proprietary module.
func proprietary(name, module string) string {
	const license = "license=Dual MIT/GPL"
	other, is := map[string]string{"nvidia.ko": "NVIDIA", "nvidia-modeset.ko": "NVIDIA", "nvidia-drm.ko": "MIT"}[name]
	if !is {
		return module
	}
	return strings.Replace(module, license, "license="+other+strings.Repeat("\x00", len(license)-len("license="+other)), 1)
}

// put copies files into a folder.
func put(t *testing.T, to string, files fs.FS) {
	t.Helper()
	if err := os.CopyFS(to, files); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// addFolder adds a folder of this machine to the guest.
func addFolder(t *testing.T, m *qemu.Machine, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			m.Files[filepath.Join(to, strings.TrimPrefix(path, from))] = read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
