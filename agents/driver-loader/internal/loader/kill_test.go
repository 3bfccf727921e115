package loader_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
)

// asMortal makes the test binary a process that swaps a driver, and dies. Its value is a mortal.
const asMortal = "TEST_AS_MORTAL"

// mortal is a process that kills itself as SIGKILL does when the node reaches a place.
type mortal struct {
	Node                loadertest.Node
	Version, Target, At string
}

func TestMain(m *testing.M) {
	if spec := os.Getenv(asMortal); spec != "" {
		swapAndDie(spec)
	}
	os.Exit(m.Run())
}

func swapAndDie(spec string) {
	var m mortal
	if err := json.Unmarshal([]byte(spec), &m); err != nil {
		panic(err)
	}
	m.Node.At = func(what string) {
		if what == m.At {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	cfg := m.Node.Config("", slog.New(slog.DiscardHandler))
	cfg.Desired = func() (loader.Desired, error) { return loader.Desired{Version: m.Version, Keep: true}, nil }
	panic(loader.New(cfg, loadertest.Machine).Swap(context.Background(), m.Target))
}

// dies swaps the driver in a process that is killed at a place.
func (u *upgraded) dies(at, target string) {
	u.Helper()
	spec, err := json.Marshal(mortal{Node: u.Node, Version: u.version, Target: target, At: at})
	assert.NilError(u, err)
	cmd := exec.CommandContext(u.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), asMortal+"="+string(spec)), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		u.Fatalf("the process was not killed: %v", err)
	}
	u.restart()
}

func TestAKilledSwapGoesOn(t *testing.T) {
	for _, at := range []string{
		"unload nvidia_modeset", "unload nvidia_uvm", "unload nvidia", "load nvidia", "load nvidia_uvm", "load nvidia_modeset", "open nvidiactl",
	} {
		for name, reboot := range map[string]bool{"": false, ", and the node rebooted": true} {
			t.Run("at "+at+name, func(t *testing.T) {
				u := newUpgraded(t)
				u.version = two
				u.settles(one, "")
				_, target := u.ids(false)
				u.dies(at, target)
				if reboot {
					u.Reboot(t)
				}
				u.succeeds("swap again", u.Swap(t.Context(), target))
				u.succeeds("validate", u.Validate(t.Context()))
				u.settles(two, "")

				// The other way round, it goes back.
				u.version = one
				u.settles(two, "")
				previous, target := u.ids(false)
				u.dies(at, target)
				if reboot {
					u.Reboot(t)
				}
				u.succeeds("roll back", u.RollBack(t.Context(), previous))
				if u.Node.Loaded() != two || u.Published() != two {
					t.Errorf("after the way back, %q is loaded, and %q is ready", u.Node.Loaded(), u.Published())
				}
			})
		}
	}
}
