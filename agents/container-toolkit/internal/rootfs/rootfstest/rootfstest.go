// Package rootfstest runs tests of code that changes a container's mounts.
package rootfstest

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// InNamespace runs this test again in a private mount namespace, whose mounts are not visible
// outside, and in the other namespaces that flags select. It reports whether the caller runs in
// these namespaces.
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
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "ROOTFS_TEST_NAMESPACE="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | flags}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in a mount namespace: %v\n%s", err, out)
	}
	if _, reason, skipped := bytes.Cut(out, []byte("SKIP: "+t.Name())); skipped {
		t.Skipf("in a mount namespace: %s", reason)
	}
	return false
}
