package cdihook_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/ldso/ldsotest"
)

// BenchmarkContainer measures the hooks of one GPU container, as processes, in an image
// with 500 libraries and a cache: one process, one for each job, and for comparison
// ldconfig in the namespaces of NVIDIA's update-ldcache,
// without the process that makes them.
func BenchmarkContainer(b *testing.B) {
	hook := filepath.Join(b.TempDir(), "nvidia-cdi-hook")
	build := exec.CommandContext(b.Context(), "go", "build", "-ldflags", "-s -w", "-o", hook, "../../tools/nvidia-cdi-hook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	const dir = "/usr/lib/x86_64-linux-gnu"
	compat, folder := []string{"--host-driver-version=580.95.05"}, []string{"--folder", dir}
	var links []string
	for i := range 12 {
		links = append(links, "--link", fmt.Sprintf("libnvidia%d.so.1::%s/libnvidia%d.so", i, dir, i))
	}
	jobs := [][]string{
		append([]string{"create-symlinks"}, links...),
		append([]string{"enable-cuda-compat"}, compat...),
		append([]string{"update-ldcache"}, folder...),
		{"disable-device-node-modification"},
		{"update-application-profile"},
	}
	one := append(append(append([]string{"prepare-container"}, links...), compat...), folder...)
	one = append(one, "--disable-device-node-modification", "--update-application-profile")
	ldconfig := func(c bundle) []*exec.Cmd {
		cmd := exec.CommandContext(b.Context(), "/sbin/ldconfig", "-r", filepath.Join(c.dir, "rootfs"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWPID | unix.CLONE_NEWUTS}
		return []*exec.Cmd{cmd}
	}
	for name, calls := range map[string]func(c bundle) []*exec.Cmd{
		"one process":            func(c bundle) []*exec.Cmd { return c.commands(hook, one) },
		"five processes":         func(c bundle) []*exec.Cmd { return c.commands(hook, jobs...) },
		"ldconfig in namespaces": ldconfig,
		"noop":                   func(c bundle) []*exec.Cmd { return c.commands(hook, []string{"noop"}) },
	} {
		b.Run(name, func(b *testing.B) {
			c := newContainer(b, dir)
			var walls, cpus []time.Duration
			for b.Loop() {
				c.reset(dir)
				var wall, cpu time.Duration
				for _, cmd := range calls(c.bundle) {
					start := time.Now()
					if out, err := cmd.CombinedOutput(); err != nil {
						b.Fatalf("%v: %v: %s", cmd.Args, err, out)
					}
					wall += time.Since(start)
					cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				}
				walls, cpus = append(walls, wall), append(cpus, cpu)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(walls), "ms")
			b.ReportMetric(median(cpus), "cpu-ms")
		})
	}
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return d[len(d)/2].Seconds() * 1000
}

// container is one of an image with libraries, with a driver mounted into it.
type container struct {
	bundle
	cache []byte
}

// reset removes what hooks have done.
func (c container) reset(dir string) {
	root := filepath.Join(c.dir, "rootfs")
	made := []string{root + "/etc/ld.so.conf", root + "/etc/ld.so.conf.d", root + "/etc/nvidia"}
	for _, pattern := range []string{"libnvidia*.so", "libnvidia*.so.1"} {
		links, err := filepath.Glob(root + dir + "/" + pattern)
		if err != nil {
			c.Fatal(err)
		}
		made = append(made, links...)
	}
	for _, p := range made {
		os.RemoveAll(p)
	}
	c.file("rootfs/etc/ld.so.cache", string(c.cache))
}

func newContainer(b *testing.B, dir string) container {
	b.Helper()
	c := newBundle(b)
	c.file("rootfs/etc/debian_version", "12")
	c.file("rootfs/lib64/ld-linux-x86-64.so.2", "")
	c.file("rootfs/dev/null", "")
	c.file("rootfs/usr/local/cuda/compat/libcuda.so.575.1.2", "\x7fELF")
	library := func(name, soname string) {
		c.file("rootfs"+dir+"/"+name, string(ldsotest.Library(elf.EM_X86_64, soname)))
	}
	for i := range 500 {
		library(fmt.Sprintf("lib%d.so.1.%d", i, i), fmt.Sprintf("lib%d.so.1", i))
	}
	if out, err := exec.CommandContext(b.Context(), "/sbin/ldconfig", "-r", filepath.Join(c.dir, "rootfs")).CombinedOutput(); err != nil {
		b.Skipf("this machine has no ldconfig that works: %v: %s", err, out)
	}
	cache, err := os.ReadFile(filepath.Join(c.dir, "rootfs/etc/ld.so.cache"))
	if err != nil {
		b.Fatal(err)
	}
	for i := range 35 {
		library(fmt.Sprintf("libnvidia%d.so.580.95.05", i), fmt.Sprintf("libnvidia%d.so.1", i))
	}
	return container{c, cache}
}

func (b bundle) commands(hook string, calls ...[]string) []*exec.Cmd {
	var out []*exec.Cmd
	for _, args := range calls {
		cmd := exec.CommandContext(b.Context(), hook, args...)
		cmd.Stdin = strings.NewReader(b.state())
		cmd.Env = []string{"NVIDIA_CTK_DEBUG=false"}
		out = append(out, cmd)
	}
	return out
}
