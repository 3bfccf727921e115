package abi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

// A test runs this binary again as another process of the node; roleKey names
// that process what to do.
const (
	roleKey    = "ABI_TEST_ROLE"
	libraryKey = "ABI_TEST_LIBRARY"
)

func TestMain(m *testing.M) {
	role, ok := os.LookupEnv(roleKey)
	if !ok {
		os.Exit(m.Run())
	}
	roles := map[string]func() error{
		"post-xid": postXID,
		"observe":  observe,
		"manage":   manage,
		"divide":   divideRole,
	}
	if err := roles[role](); err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		os.Exit(1)
	}
}

// process prepares this binary to run in a role.
func process(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	// Not the test's context: that ends before the clean-up that waits.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	// The race detector would sleep for a second before it exits.
	cmd.Env = append(os.Environ(), roleKey+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// unprivileged makes cmd run as nobody. Where the test itself has no
// privileges, cmd has none either.
func unprivileged(cmd *exec.Cmd) {
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
}

// openToAll lets other users reach a folder that the testing package made.
func openToAll(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		mustDo(t, os.Chmod(d, 0o755))
	}
}

// postXID raises XID 63 on the first GPU.
func postXID() error {
	s, err := state.Open(os.Getenv("GPU_SIM_STATE"))
	if err != nil {
		return err
	}
	defer s.Close()
	return s.PostXID(0, 63, state.NoInstance, state.NoInstance)
}

// observation is what a process learns from NVML.
type observation struct {
	Init    nvml.Return
	Count   int
	Handles []nvml.Return
	Event   uint64
	// Write is what an attempt to change the state ended with.
	Write string
}

// observe opens a session and prints what it saw. While its stdin is
// open, it waits for one event first.
func observe() error {
	var o observation
	if s, err := state.Open(os.Getenv("GPU_SIM_STATE")); err == nil {
		o.Write = fmt.Sprint(errors.Unwrap(s.SetLatency(0)))
		s.Close()
	}
	lib := nvml.New(nvml.WithLibraryPath(os.Getenv(libraryKey)))
	if o.Init = lib.Init(); o.Init != nvml.SUCCESS {
		return json.NewEncoder(os.Stdout).Encode(o)
	}
	defer lib.Shutdown()
	o.Count, _ = lib.DeviceGetCount()
	set, _ := lib.EventSetCreate()
	for i := range o.Count {
		d, ret := lib.DeviceGetHandleByIndex(i)
		o.Handles = append(o.Handles, ret)
		if ret == nvml.SUCCESS {
			d.RegisterEvents(nvml.EventTypeXidCriticalError, set)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		return err
	}
	if n, err := io.Copy(io.Discard, os.Stdin); err != nil || n == 0 {
		return err // nobody will raise an event
	}
	event, ret := set.Wait(uint32((10 * time.Second).Milliseconds()))
	if ret != nvml.SUCCESS {
		return fmt.Errorf("wait for an event: %w", ret)
	}
	o.Event = event.EventData
	return json.NewEncoder(os.Stdout).Encode(o)
}

// manage tries what an administrator may do, and prints what NVML answered: to the
// change of two modes, and to a query of process 1.
func manage() error {
	lib := nvml.New(nvml.WithLibraryPath(os.Getenv(libraryKey)))
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return ret
	}
	defer lib.Shutdown()
	d, ret := lib.DeviceGetHandleByIndex(0)
	if ret != nvml.SUCCESS {
		return ret
	}
	_, name := lib.SystemGetProcessName(1)
	return json.NewEncoder(os.Stdout).Encode([]nvml.Return{
		d.SetPersistenceMode(nvml.FEATURE_ENABLED), d.SetComputeMode(nvml.COMPUTEMODE_PROHIBITED), name,
	})
}
