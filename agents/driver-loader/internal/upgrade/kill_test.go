package upgrade_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
)

// asAgent makes the test binary the agent of a node. Its value is a mortal.
const asAgent = "TEST_AS_AGENT"

// mortal is an agent that kills itself as SIGKILL does.
type mortal struct {
	Server, Account, Namespace, Node, Journal string
	// Driver is the file with the driver that is loaded.
	Driver string
	// KillAt is a state: it dies when the journal has it. KillIn is a method of Driver: it dies in
	// the middle.
	KillAt upgrade.State
	KillIn string
	// Broken makes the swap fail.
	Broken bool
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func (m mortal) Loaded(context.Context) (string, error) {
	data, err := os.ReadFile(m.Driver)
	return string(data), err
}

func (m mortal) set(driver string) error { return os.WriteFile(m.Driver, []byte(driver), 0o600) }

func (m mortal) change(method, to string) error {
	if err := m.set(""); err != nil {
		return err
	}
	if m.KillIn == method {
		die()
	}
	return m.set(to)
}

func (m mortal) Swap(_ context.Context, target string) error {
	if err := m.change("swap", target); err != nil || !m.Broken {
		return err
	}
	return errors.New("broken")
}

func (m mortal) Validate(context.Context) error {
	if m.KillIn == "validate" {
		die()
	}
	return nil
}

func (m mortal) RollBack(_ context.Context, previous string) error {
	return m.change("roll back", previous)
}

// Enabled, Handle, WithAttrs and WithGroup make mortal the log of the agent.
func (m mortal) Enabled(context.Context, slog.Level) bool { return true }

func (m mortal) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "state" && m.KillAt != "" && a.Value.String() == string(m.KillAt) && r.Level == slog.LevelInfo {
			die()
		}
		return true
	})
	return nil
}

func (m mortal) WithAttrs([]slog.Attr) slog.Handler { return m }
func (m mortal) WithGroup(string) slog.Handler      { return m }

// runAgent runs a mortal until it is killed.
func runAgent(spec string) {
	var m mortal
	if err := json.Unmarshal([]byte(spec), &m); err != nil {
		panic(err)
	}
	if err := os.Unsetenv(asAgent); err != nil {
		panic(err)
	}
	c, err := kube.New(kube.Config{Server: m.Server, Dir: m.Account, Node: m.Node, Agent: "driver-loader", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	policy := upgrade.Default()
	policy.PodDeletion.Force = true
	cfg := config(c, slog.New(m), m.Namespace)
	cfg.Driver, cfg.Journal = m, m.Journal
	cfg.Desired = func(upgrade.State) (upgrade.Desired, error) { return upgrade.Desired{Driver: "2", Policy: policy}, nil }
	_ = upgrade.New(cfg).Run(context.Background())
}

func TestAKilledAgentGoesOn(t *testing.T) {
	s := newServer(t)
	cases := map[string]mortal{}
	for _, at := range []upgrade.State{
		upgrade.Required, upgrade.Cordoning, upgrade.WaitingJobs, upgrade.DeletingPod, upgrade.Swapping, upgrade.Validating, upgrade.Uncordoning, upgrade.Done,
	} {
		cases["at "+string(at)] = mortal{KillAt: at}
	}
	for _, at := range []upgrade.State{upgrade.RollingBack, upgrade.Restoring, upgrade.Failed} {
		cases["at "+string(at)] = mortal{KillAt: at, Broken: true}
	}
	cases["in the swap"] = mortal{KillIn: "swap"}
	cases["in the validation"] = mortal{KillIn: "validate"}
	cases["in the way back"] = mortal{KillIn: "roll back", Broken: true}
	for name, m := range cases {
		t.Run(name, func(t *testing.T) {
			dir, f := t.TempDir(), s.fleet(t, "kill-"+strings.ReplaceAll(name, " ", "-"))
			node := f.node("node", false)
			pod := "gpu-" + node.name
			f.pod(node.name, pod, true)
			rc := f.agent(t, node.name)
			m.Server, m.Account = rc.Host, apitest.Account(t, rc)
			m.Namespace, m.Node = f.namespace, node.name
			m.Journal, m.Driver = node.journal, filepath.Join(dir, "driver")
			assert.NilError(t, m.set("1"))
			f.policy.PodDeletion.Force = true
			f.granting.Do(f.grants)
			first := m.start(t)
			if err := first.Wait(); err == nil || first.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the agent was not killed: %v", err)
			}
			again := m
			again.KillAt, again.KillIn = "", ""
			second := again.start(t)
			end, driver := upgrade.Done, "2"
			if m.Broken {
				end, driver = upgrade.Failed, "1"
			}
			last := node.reaches(end)
			_ = second.Process.Kill()
			_ = second.Wait()
			got, _ := m.Loaded(t.Context())
			if last.Spec.Unschedulable || last.Metadata.Annotations[upgrade.CordonedAnnotation] != "" || got != driver || slices.Contains(f.pods(), pod) {
				t.Errorf("the node is %+v with driver %q and the pods %v", last, got, f.pods())
			}
		})
	}
}

// start starts the agent.
func (m mortal) start(t *testing.T) *exec.Cmd {
	t.Helper()
	spec, err := json.Marshal(m)
	assert.NilError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), asAgent+"="+string(spec)), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	assert.NilError(t, cmd.Start())
	return cmd
}
