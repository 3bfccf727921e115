package live_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/engine"
	"outrigger.dev/agents/container-toolkit/internal/engine/live"
	"outrigger.dev/pkg/agent/agenttest"
)

// containerds returns the programs of containerd that this machine has.
func containerds(t *testing.T) map[string]string {
	built, err := filepath.Abs("../../../../../bin/cluster-components/containerd")
	assert.NilError(t, err)
	out := map[string]string{}
	for _, program := range []string{built, "/usr/bin/containerd"} {
		if text, err := exec.CommandContext(t.Context(), program, "--version").Output(); err == nil {
			out[strings.Fields(string(text))[2]] = program
		}
	}
	if len(out) == 0 {
		t.Skip("this machine has no containerd")
	}
	return out
}

// real is an engine in a private folder of this machine.
type real struct {
	*testing.T
	dir    string
	config engine.Config
}

func newReal(t *testing.T, name engine.Name) real {
	if os.Getuid() != 0 {
		t.Skip("this machine has no root for the test")
	}
	dir := os.Getenv(podFolder)
	if dir == "" {
		dir = agenttest.ShortDir(t)
	}
	return real{T: t, dir: dir, config: engine.Config{
		Engine: name, ConfigPath: filepath.Join(dir, "config"), DropIn: filepath.Join(dir, "conf.d/99-nvidia.toml"),
		Socket: filepath.Join(dir, "engine.sock"), RuntimePath: "/usr/local/nvidia/toolkit/nvidia-container-runtime",
		SetAsDefault: true, CDI: true, Modes: true, Records: filepath.Join(dir, "records/engine"), Ask: live.Ask,
	}}
}

func (r real) keeper() *engine.Keeper {
	r.Helper()
	k, err := engine.New(r.config, slog.New(slog.DiscardHandler))
	assert.NilError(r, err)
	return k
}

func (r real) put(name, text string) {
	r.Helper()
	assert.NilError(r, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644))
}

func (r real) get(name string) string {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	assert.NilError(r, err)
	return string(data)
}

// podFolder is the variable that makes a test run as in the agent's pod: it has the folder
// of the test, below which it mounts the host's root.
const podFolder = "ENGINE_TEST_POD_FOLDER"

// inPod runs the test again in a process that has mounts of its own, which end with it.
func (r real) inPod() {
	r.Helper()
	cmd := exec.CommandContext(r.Context(), os.Args[0], "-test.run=^"+strings.ReplaceAll(r.Name(), "/", "$/^")+"$", "-test.v")
	cmd.Env = append(os.Environ(), podFolder+"="+r.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		r.Skip("this machine has no right to mount")
	}
	assert.NilError(r, err, "%s", out)
	assert.Assert(r, strings.Contains(string(out), "--- PASS"), "%s", out)
}

// mountHost has the Keeper see the host's root at a folder.
func (r *real) mountHost() {
	r.Helper()
	root := filepath.Join(r.dir, "host")
	assert.NilError(r, os.Mkdir(root, 0o755))
	assert.NilError(r, unix.Mount("/", root, "", unix.MS_BIND, ""))
	r.config.HostRoot = root
}

// supervised runs a program again whenever it ends, as systemd does, until the test ends.
// It returns a function that says how often it was started.
func (r real) supervised(program string, args ...string) (starts func() int) {
	// A service manager starts it with all signals as they are by default. A signal that
	// this process ignores, as below nohup, would be ignored there too.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	r.Cleanup(func() { signal.Stop(hangups) })
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	n := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			mu.Lock()
			n++
			mu.Unlock()
			cmd := exec.CommandContext(ctx, program, args...)
			log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return
			}
			cmd.Stdout, cmd.Stderr = log, log
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.WaitDelay = 5 * time.Second
			_ = cmd.Run() // how it ends is in its log
			_ = log.Close()
		}
	})
	r.Cleanup(func() {
		cancel()
		wg.Wait()
		if r.Failed() {
			r.Log(r.get("log"))
		}
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// TestRealContainerdIsRestartedOnce keeps the config of a running containerd: it is
// signalled once, and not if it has loaded what is there.
func TestRealContainerdIsRestartedOnce(t *testing.T) {
	for v, program := range containerds(t) {
		for _, where := range []string{"on the host", "in a pod"} {
			t.Run(v+" "+where, func(t *testing.T) {
				r := newReal(t, engine.Containerd)
				switch {
				case where == "on the host":
				case os.Getenv(podFolder) == "":
					r.inPod()
					return
				default:
					r.mountHost()
				}
				r.restartedOnce(program)
			})
		}
	}
}

func (r real) restartedOnce(program string) {
	t := r.T
	r.put("config", fmt.Sprintf("version = 2\nroot = %q\nstate = %q\n[grpc]\naddress = %q\n"+
		"[plugins.\"io.containerd.internal.v1.opt\"]\npath = %q\n[plugins.\"io.containerd.nri.v1.nri\"]\ndisable = true\n",
		r.dir+"/root", r.dir+"/state", r.config.Socket, r.dir+"/opt"))
	starts := r.supervised(program, "--config", filepath.Join(r.dir, "config"))
	k := r.keeper()
	agenttest.Poll(r, "containerd answers", func() bool { _, differs, err := k.Loaded(context.Background()); return err == nil && differs != "" })
	_, err := k.Reconcile(context.Background())
	assert.NilError(t, err)
	assert.Equal(t, starts(), 2)
	loaded, differs, err := k.Loaded(context.Background())
	assert.NilError(t, err)
	assert.Assert(t, loaded, differs)
	// Another process of the agent finds nothing to do.
	p, err := r.keeper().Reconcile(context.Background())
	assert.NilError(t, err)
	assert.Assert(t, p.Empty())
	assert.Equal(t, starts(), 2)
	_, err = k.Withdraw(context.Background())
	assert.NilError(t, err)
	assert.Equal(t, starts(), 3)
	_, err = k.Withdraw(context.Background())
	assert.NilError(t, err)
	assert.Equal(t, starts(), 3)
}
