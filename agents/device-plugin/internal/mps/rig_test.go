package mps_test

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

const shared = "nvidia.com/gpu.shared"

// rig is a supervisor with stand-ins for the driver's programs.
type rig struct {
	t    *testing.T
	root string
	bin  string
	dir  contract.Dir
	*mps.Supervisor
}

func newRig(t *testing.T) *rig {
	t.Helper()
	needMounts(t)
	r := &rig{t: t, root: agenttest.ShortDir(t), bin: standIns(t), dir: contract.Dir{Root: t.TempDir()}}
	t.Cleanup(func() { unmount(t, r.root) })
	r.restart()
	t.Cleanup(func() { r.Wait() })
	return r
}

// restart makes the supervisor that of a new process.
func (r *rig) restart() {
	r.t.Helper()
	programs, err := mps.FindPrograms(r.t.TempDir(), r.root)
	assert.NilError(r.t, err)
	r.Supervisor = mps.NewSupervisor(mps.Config{
		Root: r.root, Programs: programs, Contract: r.dir, Log: slog.New(slog.DiscardHandler),
	})
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Logf("the supervisor is not ready because of %v", r.Ready())
		}
	}()
	agenttest.Poll(r.t, what, ok)
}

func (r *rig) ready() bool { return mps.Ready(r.dir, r.root, shared) == nil }

func (r *rig) read(path string) string {
	r.t.Helper()
	data, err := os.ReadFile(path)
	assert.NilError(r.t, err)
	return string(data)
}

func (r *rig) commands() string { return r.read(filepath.Join(r.root, shared, "log", "commands")) }

// command gives the daemon a command behind the supervisor's back.
func (r *rig) command(command string) {
	r.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(r.root, shared, "pipe", "control")) //nolint:noctx // it answers at once
	assert.NilError(r.t, err)
	defer conn.Close()
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

func daemon(ids ...gpu.UUID) mps.Daemon {
	d := mps.Daemon{Folder: shared, Resource: shared, ActiveThreadPercentage: 25, Clients: len(ids)}
	for _, id := range ids {
		d.GPUs = append(d.GPUs, mps.Share{UUID: id, MemoryMiB: 1000})
	}
	return d
}

// mode returns the compute mode of a GPU.
func (r *rig) mode(id gpu.UUID) string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.bin, "mode."+string(id)))
	if errors.Is(err, fs.ErrNotExist) {
		return "DEFAULT"
	}
	assert.NilError(r.t, err)
	return string(data)
}

// needMounts skips a test on a machine on which the daemons' folders cannot be mounted.
func needMounts(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("probe", dir, "tmpfs", 0, ""); err != nil {
		t.Skipf("this machine has no right to mount: %v", err)
	}
	assert.NilError(t, unix.Unmount(dir, 0))
}

// unmount removes the mounts below a folder.
func unmount(t *testing.T, root string) {
	t.Helper()
	for _, name := range []string{"pipe", "log", "shm"} {
		one, errOne := filepath.Glob(filepath.Join(root, "*", name))
		two, errTwo := filepath.Glob(filepath.Join(root, "*", "*", name))
		if err := errors.Join(errOne, errTwo); err != nil {
			t.Error(err)
		}
		dirs := slices.Concat(one, two)
		for _, dir := range dirs {
			// EINVAL: it is no mount.
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
				t.Errorf("unmount %s: %v", dir, err)
			}
		}
	}
}
