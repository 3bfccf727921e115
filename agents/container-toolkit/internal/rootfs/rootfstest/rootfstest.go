// Package rootfstest runs tests of what changes a container's mounts.
package rootfstest

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// InNamespace starts this test again in a mount namespace of its own, of which no mount
// is seen outside, and in other namespaces of flags. It reports whether the caller is the
// one that runs there.
func InNamespace(t *testing.T, flags uintptr) bool {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("this machine has no root user for the tests")
	}
	if os.Getenv("ROOTFS_TEST_NAMESPACE") == t.Name() {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	p, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v"}, &os.ProcAttr{
		Env:   append(os.Environ(), "ROOTFS_TEST_NAMESPACE="+t.Name()),
		Files: []*os.File{nil, os.Stderr, os.Stderr},
		Sys:   &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | flags},
	})
	if err != nil {
		t.Fatal(err)
	}
	state, err := p.Wait()
	if err != nil || !state.Success() {
		t.Errorf("in a mount namespace: %v, %v", state, err)
	}
	return false
}
