package server

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
)

// The kernel says "invalid argument" only.
func TestASocketWhosePathIsTooLongIsRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("s", 108))
	_, err := listen(path)
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "the path of a unix socket has at most 107: use a shorter path") {
		t.Errorf("listen() = %v", err)
	}
}

// Between the check that finds the own socket gone and the creation of a new one,
// another plugin may create its own.
func TestServeLeavesAForeignSocketAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	own, err := listen(path)
	assert.NilError(t, err)
	assert.NilError(t, os.Remove(path))
	assert.NilError(t, os.WriteFile(path, []byte("other"), 0o600))
	k := keeper{server: &Server{path: path}, socket: own}
	assert.ErrorIs(t, k.serve(), syscall.EADDRINUSE)
	if k.socket != own {
		t.Error("the old socket is forgotten: the next attempt would remove what is in its place")
	}
	assert.NilError(t, own.close())
	if data, err := os.ReadFile(path); err != nil || string(data) != "other" {
		t.Errorf("the other's file is %q, %v", data, err)
	}
}

func TestAMissingFolderOfTheKubeletIsNamedWithTheFix(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "device-plugins")
	_, err := listen(filepath.Join(dir, "s"))
	if want := "mount the kubelet's folder " + dir + " at the same path, or set --kubelet-socket"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("listen() = %v, want %q", err, want)
	}
}

func TestAMissingKubeletIsNamedWithTheFix(t *testing.T) {
	dir := t.TempDir()
	own, err := listen(filepath.Join(dir, "s"))
	assert.NilError(t, err)
	defer func() { _ = own.close() }()
	k := keeper{
		server: &Server{path: own.path, registration: newRegistration(func() {}, func() {}), cfg: Config{KubeletSocket: filepath.Join(dir, "kubelet.sock"), Register: true}},
		socket: own,
	}
	want := "kubelet.sock: no such file or directory: wait until the kubelet runs; if it does, mount its folder " + dir
	if _, err := k.check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("check() = %v, want %q", err, want)
	}
}
