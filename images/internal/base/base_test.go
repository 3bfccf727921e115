package base_test

import (
	"crypto/md5" //nolint:gosec // what packages have
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"outrigger.dev/images/internal/base"
)

// own is the package that is installed on this machine.
var own = base.Source{Arch: runtime.GOARCH}

func TestReadOS(t *testing.T) {
	tests := map[string]struct{ release, tag, reference, fault string }{
		"Debian 12":    {"ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian\"\n", "debian12", "docker.io/library/debian:12", ""},
		"Ubuntu 24.04": {"VERSION_ID=\"24.04\"\nID=ubuntu\nID_LIKE=debian\n", "ubuntu24.04", "docker.io/library/ubuntu:24.04", ""},
		"Fedora":       {"ID=fedora\nVERSION_ID=44\n", "", "", "Debian or Ubuntu"},
		"Debian sid":   {"ID=debian\n", "", "", "Debian or Ubuntu"},
		"nothing":      {"", "", "", "Debian or Ubuntu"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := base.ReadOS([]byte(tc.release))
			if tc.fault == "" && (got.String() != tc.tag || got.Reference() != tc.reference) {
				t.Errorf("got %q and %q, want %q and %q", got, got.Reference(), tc.tag, tc.reference)
			}
			if (err != nil) != (tc.fault != "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("got %v, want %q", err, tc.fault)
			}
		})
	}
}

func TestMakeCreatesATreeForPrograms(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is missing: this runs on Debian or Ubuntu")
	}
	cache := t.TempDir()
	dir, err := base.Make(t.Context(), "../../base/rootfs.sh", cache, own)
	if err != nil {
		t.Fatal(err)
	}
	again, err := base.Make(t.Context(), "../../base/rootfs.sh", cache, own)
	if err != nil || again != dir {
		t.Errorf("a second call made %s, %v; want %s again", again, err, dir)
	}
	if entries, _ := os.ReadDir(cache); len(entries) != 1 {
		t.Errorf("left in the cache: %v", entries)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the tree is closed to other users: %v, %v", info.Mode(), err)
	}
	program, err := os.Open("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if err := base.Check(program, runtime.GOARCH, dir); err != nil {
		t.Errorf("check /bin/true: %v", err)
	}
	for _, link := range []string{"lib", "lib64", "bin", "sbin"} {
		if target, err := os.Readlink(filepath.Join(dir, link)); err != nil || target != "usr/"+link {
			t.Errorf("/%s leads to %q, %v", link, target, err)
		}
	}
}

func TestMakeRunsConcurrently(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is missing: this runs on Debian or Ubuntu")
	}
	cache := t.TempDir()
	results := make(chan error)
	for range 2 {
		go func() {
			_, err := base.Make(t.Context(), "../../base/rootfs.sh", cache, own)
			results <- err
		}()
	}
	if err := errors.Join(<-results, <-results); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(cache); len(entries) != 1 {
		t.Errorf("left in the cache: %v", entries)
	}
}

func TestMakeCleansUpAfterAFailedScript(t *testing.T) {
	script := filepath.Join(t.TempDir(), "rootfs.sh")
	if err := os.WriteFile(script, []byte("mkdir \"$1/half\"\necho no such package >&2\nexit 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	_, err := base.Make(t.Context(), script, cache, own)
	if err == nil || !strings.Contains(err.Error(), "no such package") || !strings.Contains(err.Error(), script) {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(cache); len(entries) != 0 {
		t.Errorf("left in the cache: %v", entries)
	}
}

// unpacked makes a folder such as libc6.sh writes for arch, with files of no use.
func unpacked(t *testing.T, arch, triplet, loader string) string {
	t.Helper()
	packages := t.TempDir()
	sums := ""
	add := func(name, text string) {
		path := filepath.Join(packages, arch, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sums += fmt.Sprintf("%x  %s\n", md5.Sum([]byte(text)), name) //nolint:gosec // what packages have
	}
	for _, library := range []string{
		"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2", loader,
	} {
		add(filepath.Join("lib", triplet, library), library+" for "+arch)
	}
	add("usr/share/doc/libc6/copyright", "free")
	add("DEBIAN/md5sums", sums)
	add("DEBIAN/control", "Package: libc6\nSource: glibc\nVersion: 2.36-9\nArchitecture: "+arch+"\nMaintainer: GNU\n")
	return packages
}

func TestMakeCreatesATreeForAnotherArchitecture(t *testing.T) {
	arch, triplet, loader := "arm64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1"
	if runtime.GOARCH == arch {
		arch, triplet, loader = "amd64", "x86_64-linux-gnu", "ld-linux-x86-64.so.2"
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is missing: this runs on Debian or Ubuntu")
	}
	source := base.Source{Arch: arch, Packages: unpacked(t, arch, triplet, loader)}
	dir, err := base.Make(t.Context(), "../../base/rootfs.sh", t.TempDir(), source)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "usr/lib", triplet, "libc.so.6")); err != nil || string(text) != "libc.so.6 for "+arch {
		t.Errorf("the library is %q, %v", text, err)
	}
	libc, err := base.Package(dir)
	if err != nil || libc["Version"] != "2.36-9" || libc["Architecture"] != arch || libc["Source"] != "glibc" || libc["Status"] == "" {
		t.Errorf("the package is %v, %v", libc, err)
	}

	if err := os.WriteFile(filepath.Join(source.Packages, arch, "lib", triplet, "libm.so.6"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := base.Make(t.Context(), "../../base/rootfs.sh", t.TempDir(), source); err == nil || !strings.Contains(err.Error(), "libm.so.6") {
		t.Errorf("with a damaged file: %v", err)
	}
	source.Packages = t.TempDir()
	if _, err := base.Make(t.Context(), "../../base/rootfs.sh", t.TempDir(), source); err == nil || !strings.Contains(err.Error(), "libc6.sh "+source.Packages+" "+arch) {
		t.Errorf("without the package: %v", err)
	}
}

func TestInstalledPackageIsNamed(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is missing: this runs on Debian or Ubuntu")
	}
	dir, err := base.Make(t.Context(), "../../base/rootfs.sh", t.TempDir(), own)
	if err != nil {
		t.Fatal(err)
	}
	libc, err := base.Package(dir)
	if err != nil || libc["Package"] != "libc6" || libc["Version"] == "" || libc["Architecture"] != runtime.GOARCH || libc["Source"] != "glibc" {
		t.Errorf("the package is %v, %v", libc, err)
	}
}

func TestCheckNamesMissingLibraries(t *testing.T) {
	program, err := os.Open("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if err := base.Check(program, runtime.GOARCH, t.TempDir()); err == nil || !strings.Contains(err.Error(), "libc.so.6") {
		t.Errorf("on an empty base: %v", err)
	}
	if err := base.Check(program, "arm", ""); err == nil || !strings.Contains(err.Error(), "not for arm: build it with GOARCH=arm") {
		t.Errorf("for another architecture: %v", err)
	}
	if err := base.Check(strings.NewReader("#!/bin/sh\n"), runtime.GOARCH, t.TempDir()); err == nil || !strings.Contains(err.Error(), "ELF") {
		t.Errorf("a script: %v", err)
	}
}
