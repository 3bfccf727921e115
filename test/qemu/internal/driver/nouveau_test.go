//go:build e2e

package driver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNouveau has a GPU that the kernel's own driver has taken.
func TestNouveau(t *testing.T) {
	guest(t)
	insert(t)
	has(t, succeeds(t, first, "plan"), "bound to nouveau", "nouveau is loaded but not in use: the agent unloads it before it loads the driver", "next: unload nouveau")
	t.Run("it stays for a driver that the kernel would reject", func(t *testing.T) {
		fails(t, otherOptions, "load", "ModuleWrongOptions")
		bound(t, true)
	})
	t.Run("it stays while something uses it", func(t *testing.T) {
		f := hold(t, "/dev/card0")
		fails(t, first, "load", "OtherDriverBound: GPU "+gpu+": it is bound to the driver nouveau, which cannot be unloaded, because it is used by ",
			fmt.Sprintf("(pid %d), which has /dev/card0 open", os.Getpid()), "fix: add modprobe.blacklist=nouveau to the kernel's command line, and reboot")
		bound(t, true)
		loaded(t, "")
		f.Close()
	})
	t.Run("it comes back if the driver does not work", func(t *testing.T) {
		install(t)
		fails(t, broken, "load", `"unload nouveau"`, "ModuleInitFailed", "asked to fail with error 5")
		bound(t, true)
		loaded(t, "")
		has(t, succeeds(t, broken, "plan"), "it does not work on this node, and nouveau was loaded again", "asked to fail with error 5")
	})
	t.Run("it is unloaded before the driver is loaded", func(t *testing.T) {
		out := succeeds(t, first, "load")
		has(t, out, `"unload nouveau"`, "unloading module", "module=nouveau")
		if strings.Index(out, "module=nouveau") > strings.Index(out, "module=nvidia") {
			t.Errorf("nvidia was loaded before nouveau was unloaded:\n%s", out)
		}
		bound(t, false)
		loaded(t, first)
		ready(t, first)
	})
}

// built returns the file of the stand-in for nouveau.
func built(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(store + "/modules/*/*/nouveau.ko")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0]
}

// install installs the stand-in for nouveau as a module of the kernel.
func install(t *testing.T) {
	t.Helper()
	lists, err := filepath.Glob("/lib/modules/*/modules.dep")
	if err != nil || len(lists) != 1 {
		t.Fatal(lists, err)
	}
	list, err := os.ReadFile(lists[0])
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(built(t))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(filepath.Dir(lists[0]), "kernel/nouveau.ko"), string(module))
	write(t, lists[0], string(list)+"kernel/nouveau.ko:\n")
}

// insert loads the stand-in for nouveau.
func insert(t *testing.T) {
	t.Helper()
	f := hold(t, built(t))
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
		t.Fatal(err)
	}
	bound(t, true)
}

// bound fails the test unless nouveau has the GPU, or has not and is not loaded.
func bound(t *testing.T, want bool) {
	t.Helper()
	driver, _ := os.Readlink(filepath.Join("/sys/bus/pci/devices", gpu, "driver"))
	_, err := os.Stat("/sys/module/nouveau")
	if got := filepath.Base(driver) == "nouveau"; got != want || err == nil != want {
		t.Errorf("the driver of the GPU is %q, and the module nouveau: %v", driver, err)
	}
}
