package base_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/images/internal/base"
)

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
	dir, err := base.Make(t.Context(), "../../base/rootfs.sh", cache)
	if err != nil {
		t.Fatal(err)
	}
	again, err := base.Make(t.Context(), "../../base/rootfs.sh", cache)
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
	if err := base.Check(program, dir); err != nil {
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
			_, err := base.Make(t.Context(), "../../base/rootfs.sh", cache)
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
	_, err := base.Make(t.Context(), script, cache)
	if err == nil || !strings.Contains(err.Error(), "no such package") || !strings.Contains(err.Error(), script) {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(cache); len(entries) != 0 {
		t.Errorf("left in the cache: %v", entries)
	}
}

func TestCheckNamesMissingLibraries(t *testing.T) {
	program, err := os.Open("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if err := base.Check(program, t.TempDir()); err == nil || !strings.Contains(err.Error(), "libc.so.6") {
		t.Errorf("on an empty base: %v", err)
	}
	if err := base.Check(strings.NewReader("#!/bin/sh\n"), t.TempDir()); err == nil || !strings.Contains(err.Error(), "ELF") {
		t.Errorf("a script: %v", err)
	}
}
