package payloadtest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/module/moduletest"
)

// This file makes the layouts of NVIDIA's driver images.

// Container makes the root of an image of the container kind, with one archive for each driver.
func Container(t testing.TB, drivers ...Driver) string {
	t.Helper()
	image := t.TempDir()
	for _, d := range drivers {
		archive, err := os.ReadFile(d.Archive(t, "gzip"))
		if err != nil {
			t.Fatal(err)
		}
		Write(t, filepath.Join(image, "drivers/NVIDIA-Linux-x86_64-"+d.Version+d.Suffix+".run"), string(archive), 0o755)
	}
	Write(t, filepath.Join(image, "usr/bin/bash"), "not of the driver\n", 0o755)
	return image
}

// Modules returns the files of precompiled modules, by name.
func Modules(version, release string, license func(module string) string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm", "nvidia-peermem"} {
		own := strings.ReplaceAll(name, "-", "_")
		m := moduletest.Module{Name: own, Version: version, Vermagic: release + " SMP mod_unload", License: license(own)}
		if name != "nvidia" {
			m.Depends = []string{"nvidia"}
		}
		out[name+".ko"] = string(m.Bytes())
	}
	return out
}

// Ubuntu makes the root of an image with precompiled modules for Ubuntu: Debian packages in a repository folder.
func (d Driver) Ubuntu(t testing.TB, release string) string {
	t.Helper()
	image := t.TempDir()
	files := d.files()
	pick := func(to string, names ...string) map[string]string {
		out := map[string]string{}
		for _, name := range names {
			out[to+name] = files[name]
		}
		return out
	}
	libraries := pick("usr/lib/x86_64-linux-gnu/", "libcuda.so."+d.Version, "libnvidia-ml.so."+d.Version, "libnvidia-allocator.so."+d.Version)
	libraries["usr/lib/x86_64-linux-gnu/libcuda.so.1"], libraries["usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"] = "-> libcuda.so."+d.Version, "-> libnvidia-ml.so."+d.Version
	libraries["usr/share/doc/libnvidia-compute-580-server/copyright"] = "text\n"
	firmware := map[string]string{"lib/firmware/nvidia/" + d.Version + "/gsp_ga10x.bin": "firmware of " + d.Version}
	open, objects, bits := map[string]string{}, map[string]string{}, map[string]string{}
	for name, content := range Modules(d.Version, release, moduletest.Open) {
		open["lib/modules/"+release+"/kernel/nvidia-580srv-open/"+name] = content
	}
	// Ubuntu's linker joins the parts, which here needs only cat.
	var script strings.Builder
	script.WriteString("set -e\n")
	for name, content := range Modules(d.Version, release, moduletest.Proprietary) {
		objects["lib/modules/"+release+"/kernel/nvidia-580srv/bits/parts/"+name+".1"] = content[:70]
		objects["lib/modules/"+release+"/kernel/nvidia-580srv/bits/parts/"+name+".2"] = content[70:]
		fmt.Fprintf(&script, "cat parts/%[1]s.1 parts/%[1]s.2 > %[1]s\n", name)
	}
	objects["lib/modules/"+release+"/kernel/nvidia-580srv/bits/BUILD"] = script.String()
	bits["lib/modules/"+release+"/kernel/nvidia-580srv/bits/SHA256SUMS"] = ""
	bits["lib/modules/"+release+"/kernel/nvidia-535srv/bits/nvidia.ko.sig"] = "of another driver"
	for name, content := range map[string]map[string]string{
		"libnvidia-compute-580-server_" + d.Version + "-0ubuntu1_amd64": libraries,
		"libnvidia-compute-580-server_" + d.Version + "-0ubuntu1_i386":  {"usr/lib/i386-linux-gnu/libcuda.so." + d.Version: "32 bits"},
		"nvidia-utils-580-server_" + d.Version + "-0ubuntu1_amd64":      pick("usr/bin/", "nvidia-smi"),
		"nvidia-firmware-580-server-" + d.Version + "_1_amd64":          firmware,
		"linux-modules-nvidia-580-server-open-" + release + "_1_amd64":  open,
		"linux-objects-nvidia-580-server-" + release + "_1_amd64":       objects,
		"linux-signatures-nvidia-" + release + "_1_amd64":               bits,
		"libc6_2.39_amd64": {"usr/lib/x86_64-linux-gnu/libc.so.6": "not of the driver"},
	} {
		Write(t, filepath.Join(image, "usr/local/repos", name+".deb"), string(Deb(t, content)), 0o644)
	}
	return image
}

// Ubuntu2604 makes the root of an image of the container kind for Ubuntu 26.04: an installed driver with the sources of the
// open modules, and the proprietary sources in a Debian package.
func (d Driver) Ubuntu2604(t testing.TB) string {
	t.Helper()
	image := t.TempDir()
	for _, stem := range []string{"libcuda.so.", "libnvidia-ml.so."} {
		Write(t, filepath.Join(image, "usr/lib/x86_64-linux-gnu", stem+d.Version), d.files()[stem+d.Version], 0o644)
		if err := os.Symlink(stem+d.Version, filepath.Join(image, "usr/lib/x86_64-linux-gnu", stem+"1")); err != nil {
			t.Fatal(err)
		}
	}
	Write(t, filepath.Join(image, "lib/firmware/nvidia", d.Version, "gsp_ga10x.bin"), "firmware of "+d.Version, 0o644)
	Write(t, filepath.Join(image, "usr/src/nvidia-"+d.Version, "nvidia/nv.c"), "MODULE_LICENSE(\"Dual MIT/GPL\");\n", 0o644)
	for name, license := range map[string]string{"nvidia-kernel-source": "NVIDIA", "nvidia-dkms-open": "Dual MIT/GPL"} {
		Write(t, filepath.Join(image, "usr/local/repos", name+"_"+d.Version+"_amd64.deb"), string(Deb(t, map[string]string{
			"usr/src/nvidia-" + d.Version + "/nvidia/nv.c": "MODULE_LICENSE(\"" + license + "\");\n",
			"usr/share/" + name + "/other":                 "not needed",
		})), 0o644)
	}
	return image
}

// RedHat makes the root of an image with precompiled modules for the family of Red Hat: an installed driver. The kernel
// does not look in the folder of its firmware.
func (d Driver) RedHat(t testing.TB, release string, license func(module string) string) string {
	t.Helper()
	image := t.TempDir()
	for name, content := range d.files() {
		if filepath.Ext(name) == "."+d.Version[len(d.Version)-2:] && filepath.Dir(name) == "." {
			Write(t, filepath.Join(image, "usr/lib64", name), content, 0o755)
		}
	}
	Write(t, filepath.Join(image, "usr/bin/nvidia-smi"), "#!/bin/sh\n", 0o755)
	Write(t, filepath.Join(image, "opt/lib/firmware/nvidia", d.Version, "gsp_ga10x.bin"), "firmware of "+d.Version, 0o644)
	for name, content := range Modules(d.Version, release, license) {
		Write(t, filepath.Join(image, "usr/lib/modules", release, "extra/drivers/video/nvidia", name), content, 0o644)
	}
	for link, target := range map[string]string{
		"lib": "usr/lib", "lib64": "usr/lib64", "usr/lib64/libcuda.so.1": "libcuda.so." + d.Version, "usr/lib64/libnvidia-ml.so.1": "libnvidia-ml.so." + d.Version,
	} {
		if err := os.Symlink(target, filepath.Join(image, link)); err != nil {
			t.Fatal(err)
		}
	}
	return image
}

// Debian makes a root with the packages of Debian itself. Links through /etc/alternatives choose the driver.
func (d Driver) Debian(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	const libraries = "usr/lib/x86_64-linux-gnu"
	files := d.files()
	links := map[string]string{"lib": "usr/lib", "usr/bin/nvidia-smi": "/etc/alternatives/nvidia--nvidia-smi", "etc/alternatives/nvidia--nvidia-smi": "/usr/lib/nvidia/current/nvidia-smi"}
	for _, stem := range []string{"libcuda.so", "libnvidia-ml.so"} {
		Write(t, filepath.Join(root, libraries, "nvidia/current", stem+"."+d.Version), files[stem+"."+d.Version], 0o644)
		links[libraries+"/nvidia/current/"+stem+".1"] = stem + "." + d.Version
		links[libraries+"/"+stem+".1"] = "/etc/alternatives/nvidia--" + stem + ".1-x86_64-linux-gnu"
		links["etc/alternatives/nvidia--"+stem+".1-x86_64-linux-gnu"] = "/" + libraries + "/nvidia/current/" + stem + ".1"
	}
	Write(t, filepath.Join(root, "usr/lib/nvidia/current/nvidia-smi"), "#!/bin/sh\n", 0o755)
	Write(t, filepath.Join(root, "usr/lib/firmware/nvidia", d.Version, "gsp_ga10x.bin"), "firmware of "+d.Version, 0o644)
	Write(t, filepath.Join(root, "usr/src/nvidia-current-"+d.Version, "nvidia/nv.c"), "MODULE_LICENSE(\"NVIDIA\");\n", 0o644)
	for _, name := range slices.Sorted(maps.Keys(links)) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(links[name], path); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Deb returns a Debian package with files. A content such as "-> target" makes a link.
func Deb(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	add := func(h tar.Header, content string) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var folders []string
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			folders = append(folders, dir)
		}
		for _, dir := range slices.Backward(folders) {
			add(tar.Header{Typeflag: tar.TypeDir, Name: "./" + dir + "/", Mode: 0o755}, "")
		}
		if target, is := strings.CutPrefix(files[name], "-> "); is {
			add(tar.Header{Typeflag: tar.TypeSymlink, Name: "./" + name, Linkname: target}, "")
			continue
		}
		add(tar.Header{Typeflag: tar.TypeReg, Name: "./" + name, Mode: 0o755}, files[name])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, member := range []struct {
		name    string
		content []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.xz", []byte("odd")}, {"data.tar.zst", Compress(t, "zstd", data.Bytes())}} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, 0, 0, 0, "100644", len(member.content))
		out.Write(member.content)
		if len(member.content)%2 != 0 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}
