package attack_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/container-toolkit/internal/rootfs/rootfstest"
)

// places are the paths that hooks read, write or mount on, and the canary that a link
// there would lead to.
func places() map[string]string {
	return map[string]string{
		"usr":                   ".",
		"usr/lib":               ".",
		libDir:                  "lib",
		libDir + "/gbm":         "lib",
		libDir + "/libcuda.so":  "new",
		"opt":                   ".",
		"opt/driver/lib":        "lib",
		"etc":                   ".",
		"etc/ld.so.conf":        "conf.conf",
		"etc/ld.so.conf.d":      ".",
		"etc/ld.so.cache":       "file",
		"etc/debian_version":    "file",
		"etc/nvidia":            ".",
		"usr/local":             ".",
		"usr/local/cuda":        ".",
		"usr/local/cuda/compat": "lib",
		"usr/local/cuda/compat/libcuda.so.999.1.2": "lib/" + canaryLib,
		"proc/driver":                            ".",
		"proc/driver/nvidia/params":              "nvidia/params",
		"dev":                                    ".",
		libDir + "/libescape.so.1":               "lib/" + canaryLib,
		"etc/ld.so.conf.d/escape.conf":           "conf.conf",
		"etc/ld.so.conf.d/00-nvcr-driver.conf":   "file",
		"etc/ld.so.conf.d/00-compat-driver.conf": "file",
		"etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf": "file",
		libDir + "/libcuda.so.1": "new",
	}
}

// CVE-2024-0134 (links of create-symlinks), CVE-2025-23267 (links that update-ldcache
// follows), CVE-2024-0133 and CVE-2025-23359 (links below the CUDA compatibility folder):
// each path is a link out of the container.
func TestLinksInEachPath(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	for hook, args := range hooks(t) {
		for place, canary := range places() {
			v := newVictim(t)
			v.image("dev/nvidia0", "")
			targets := v.escape(canary)
			if hook != "prepare-container" {
				// It does the same as the others.
				targets = targets[:2]
			}
			for i, target := range targets {
				t.Run(hook+" "+place+" "+strconv.Itoa(i), func(t *testing.T) {
					v.TB = t
					v.link(target, place)
					v.arm()
					v.run(args...)
					v.check()
				})
			}
		}
	}
}

// CVE-2026-24260 and CVE-2024-0132 (check, then use): while a hook works, another process
// swaps each folder on its paths for a link out of the container, as fast as it can.
func TestSwappedWhileTheHookRuns(t *testing.T) {
	if !rootfstest.InNamespace(t, 0) {
		return
	}
	for hook, args := range hooks(t) {
		t.Run(hook, func(t *testing.T) {
			v := newVictim(t)
			v.must(os.MkdirAll(v.rootfs("etc/nvidia/nvidia-application-profiles-rc.d"), 0o755))
			v.must(os.MkdirAll(v.rootfs("opt/driver/lib"), 0o755))
			v.must(os.MkdirAll(v.rootfs(libDir+"/gbm"), 0o755))
			pairs := v.traps()
			v.arm()
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					p := pairs[n%len(pairs)]
					// Twice: the next pair must find its folder.
					for range 2 {
						_ = unix.Renameat2(unix.AT_FDCWD, p[0], unix.AT_FDCWD, p[1], unix.RENAME_EXCHANGE)
					}
				}
			}()
			for range runs(t) {
				v.run(args...)
			}
			close(stop)
			<-stopped
			v.check()
			// A run can lose every race.
			if !v.run(args...) {
				t.Error("the hook does not work after the race")
			}
		})
	}
}

// traps makes a link out of the container beside each folder that hooks pass, and returns
// the pairs of folder and link.
func (v *victim) traps() [][2]string {
	v.Helper()
	var out [][2]string
	for place, canary := range places() {
		info, err := os.Stat(v.rootfs(place))
		if err != nil || !info.IsDir() {
			continue
		}
		for i, target := range v.escape(canary) {
			trap := v.rootfs(filepath.Dir(place) + "/.trap-" + filepath.Base(place) + strconv.Itoa(i))
			v.must(os.Symlink(target, trap))
			out = append(out, [2]string{v.rootfs(place), trap})
		}
	}
	return out
}
