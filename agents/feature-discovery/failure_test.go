package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// The kernel still knows the name of a GPU that NVML cannot read.
func TestLostGPUAtStart(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=4", "--model=h100-80")
	want := simulated(t, n)
	n.Run("lose", "2")
	p := start(t, n, "--ready-chain", "driver")
	p.has(want)
	p.metric(`gpu_ready{reason="GPUsReady"} 1` + "\n")
}

// A driver that comes up, and a GPU that is plugged, show in the kernel before
// their device nodes do; and NVML does not show what has none at its start.
func TestLateDeviceNode(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=2", "--model=l4")
	device := filepath.Join(n.Root, "dev", "nvidia1")
	assert.NilError(t, os.Remove(device))
	p := start(t, n)
	p.has(map[string]string{"gpu.count": "1"})
	p.Said("gpus are hidden from this process", "this process has no /dev/nvidia1")
	assert.NilError(t, unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(195, 1))))
	p.has(simulated(t, n))
}

// NVML does not show a GPU that the driver is still adding, although the kernel has its files already.
func TestAGPUThatNVMLShowsLate(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4")
	gpus, device := filepath.Join(n.Root, "proc", "driver", "nvidia", "gpus"), filepath.Join(n.Root, "dev", "nvidia1")
	n.Run("plug", "--model=l4")
	ids, err := os.ReadDir(gpus)
	assert.NilError(t, err)
	added := filepath.Join(gpus, ids[len(ids)-1].Name())
	kept := filepath.Join(t.TempDir(), "gpu")
	assert.NilError(t, os.CopyFS(kept, os.DirFS(added)))
	n.Run("unplug", "1")
	assert.NilError(t, os.CopyFS(added, os.DirFS(kept)))
	assert.NilError(t, unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(195, 1))))
	p := start(t, n)
	p.has(map[string]string{"gpu.count": "1"})
	n.Run("plug", "--model=l4") // the files of the kernel stay the same
	p.has(map[string]string{"gpu.count": "2"})
}

// What hangs while it runs, and what hung before, are waited for together.
func TestHangingDriver(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: what answers sooner is said to be slow, and not to hang")
	}
	running, starting := simtest.New(t, "--gpus=1", "--model=l4"), simtest.New(t, "--gpus=1", "--model=l4")
	starting.Run("set", "latency=1h")
	labelled, bare := start(t, running, "--ready-chain", "driver"), start(t, starting, "--ready-chain", "driver")
	labelled.has(simulated(t, running))
	before, _ := content(t, labelled.file)
	running.Run("set", "latency=1h")
	t.Parallel() // only now: it hangs while other tests run
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for call, p := range map[string]*process{"nvmlEventSetWait_v2": labelled, "nvmlInit_v2": bare} {
		agenttest.PollUntil(ctx, t, "/healthz to fail", func() bool {
			status, body := p.Ask("/healthz")
			return status == 503 && strings.Contains(body, "nvml: "+call+" has not answered")
		})
		p.metric(`gpu_ready{reason="DriverHangs"} 0` + "\n")
		p.Said("level=ERROR", "the driver hangs, no gpu can be used", call)
	}
	labelled.ready()
	if after, _ := content(t, labelled.file); after != before {
		t.Errorf("a driver that hangs has changed the labels to %s", after)
	}
	bare.unready("nvmlInit_v2 has not answered")
	if _, there := content(t, bare.file); there {
		t.Error("there are labels of a node that was not read")
	}
	labelled.Kill()
	bare.Kill()
}

// A process that NVML does not let go of ends in time, and says why.
func TestEndsWhileNVMLHangs(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1")
	n.Run("set", "latency=1h")
	p := start(t, n)
	agenttest.Poll(t, "a call of NVML", n.Called)
	p.unready("the node has not been read yet")
	p.Dies("nvmlInit_v2 has not answered")
	if _, there := content(t, p.file); there {
		t.Error("there are labels of a node that was not read")
	}
}

// What keeps labels from being written is reported, and the labels are written when it
// ends.
func TestHostileSurroundings(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4")
	for name, tc := range map[string]struct {
		// spoil makes dir, the parent of the folder of the file, unfit, and returns
		// what repairs it.
		spoil func(t *testing.T, dir string) (repair func())
		// want is what is said.
		want []string
	}{
		"the folder is not there": {
			spoil: func(t *testing.T, dir string) func() {
				t.Helper()
				assert.NilError(t, os.Remove(dir))
				return func() { assert.NilError(t, os.Mkdir(dir, 0o755)) }
			},
			want: []string{"write features file", "no such file or directory", "create or mount the folder"},
		},
		"the folder is read-only": {
			spoil: func(t *testing.T, dir string) func() {
				t.Helper()
				// The file system and not the mount, of which the node has a copy.
				if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "ro"); err != nil {
					t.Skipf("needs a read-only file system: mount tmpfs: %v", err)
				}
				t.Cleanup(func() { assert.NilError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
				return func() { assert.NilError(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "")) }
			},
			want: []string{"write features file", "read-only file system", "read-write"},
		},
		"the folder is a file": {
			spoil: func(t *testing.T, dir string) func() {
				t.Helper()
				assert.NilError(t, os.Remove(dir))
				write(t, dir, "")
				return func() { assert.NilError(t, os.Remove(dir)); assert.NilError(t, os.Mkdir(dir, 0o755)) }
			},
			want: []string{"features file", "not a directory", "must be a folder"},
		},
		"the file is a folder": {
			spoil: func(t *testing.T, dir string) func() {
				t.Helper()
				assert.NilError(t, os.Mkdir(filepath.Join(dir, "gfd"), 0o755))
				return func() { assert.NilError(t, os.Remove(filepath.Join(dir, "gfd"))) }
			},
			want: []string{"write features file", "remove the folder at the path of the file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "features.d")
			assert.NilError(t, os.Mkdir(dir, 0o755))
			repair := tc.spoil(t, dir)
			file := filepath.Join(dir, "gfd")
			p := startWith(t, n, file)
			p.Said(append([]string{"level=ERROR", "cannot publish labels, retrying", file}, tc.want...)...)
			p.unready(append([]string{file}, tc.want...)...)
			repair()
			p.has(simulated(t, n))
			p.ready()
			if got := strings.Count(p.Log.String(), "level=ERROR"); got != 1 {
				t.Errorf("one trouble was logged %d times", got)
			}
		})
	}
}

// A link in the file's place is replaced, and what it leads to is neither read nor
// written. Everything else stays: it may be a device.
func TestNoFileInItsPlace(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4")
	other := filepath.Join(t.TempDir(), "other")
	write(t, other, "precious\n")
	for name, place := range map[string]func(path string) error{
		"a link":           func(path string) error { return os.Symlink(other, path) },
		"a broken link":    func(path string) error { return os.Symlink("nowhere", path) },
		"a link to itself": func(path string) error { return os.Symlink(path, path) },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "gfd")
			assert.NilError(t, place(file))
			p := startWith(t, n, file)
			agenttest.Poll(t, "a file", func() bool {
				fi, err := os.Lstat(file)
				return err == nil && fi.Mode().IsRegular()
			})
			p.has(simulated(t, n))
			p.ready()
		})
	}
	t.Run("a named pipe", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "gfd")
		assert.NilError(t, unix.Mkfifo(file, 0o600))
		p := startWith(t, n, file)
		p.unready(file + ": it is a named pipe, not a regular file")
		assert.NilError(t, os.Remove(file))
		p.has(simulated(t, n))
		p.ready()
	})
	if got, _ := content(t, other); got != "precious\n" {
		t.Errorf("the file that the link led to is %q now", got)
	}
}

// The file is put right when somebody has changed or removed it, and months of
// that leave nothing behind.
func TestEndures(t *testing.T) {
	t.Parallel()
	n := simtest.New(t, "--gpus=1", "--model=l4")
	p := start(t, n, "--sleep-interval", "50ms", "--no-timestamp")
	want := simulated(t, n)
	p.has(want)
	right, _ := content(t, p.file)
	trouble := func(i int) {
		p.Hangup(i)
		if i%2 == 0 {
			assert.NilError(t, os.Remove(p.file))
		} else {
			write(t, p.file, fmt.Sprintf("nvidia.com/gpu.count=%d\n", i+7))
		}
		agenttest.Poll(t, "the file as it was", func() bool {
			now, _ := content(t, p.file)
			return now == right
		})
	}
	const first, all = 10, 40
	for i := range first { // All that the agent watches begins meanwhile.
		trouble(i + 1)
	}
	files, routines := 0, 0
	for range 20 { // Each look, every 50 ms, opens files.
		files, routines = max(files, p.Gauge("process_open_fds")), max(routines, p.Gauge("go_goroutines"))
		<-time.After(10 * time.Millisecond)
	}
	for i := first; i < all; i++ {
		trouble(i + 1)
	}
	p.Falls("process_open_fds", files)
	p.Falls("go_goroutines", routines)
	if log := p.Log.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		t.Error("the log has a warning, although all is as it should be")
	}
}
