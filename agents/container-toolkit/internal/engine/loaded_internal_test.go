package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// answers returns an Ask that always says the same.
func answers(l Live, err error) Ask {
	return func(context.Context, Name, string) (Live, error) { return l, err }
}

func TestLoaded(t *testing.T) {
	c := newNode(t).config(Docker)
	loaded := Live{Programs: map[string]string{}, Default: "nvidia", CDI: true}
	for _, r := range c.Desired().Runtimes {
		loaded.Programs[r.Name] = r.Path
	}
	standard, without, off := loaded, loaded, loaded
	standard.Default = "runc"
	without.Programs = nil
	off.CDI = false
	for name, tc := range map[string]struct {
		live Live
		want string
	}{
		"everything":      {loaded, ""},
		"another default": {standard, `the default runtime is "runc", not nvidia`},
		"no runtimes":     {without, `the program of the runtime nvidia is "", not /usr/local/nvidia/toolkit/nvidia-container-runtime`},
		"CDI is off":      {off, "CDI is off"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			c := n.config(Docker)
			c.SetAsDefault, c.CDI, c.Ask = true, true, answers(tc.live, nil)
			ok, differs, err := n.keeper(c).Loaded(context.Background())
			assert.NilError(t, err)
			assert.Equal(t, differs, tc.want)
			assert.Equal(t, ok, tc.want == "")
		})
	}
}

func TestLoadedOfAnEngineThatDoesNotAnswer(t *testing.T) {
	n := newNode(t)
	c := n.config(Containerd)
	c.Ask = answers(Live{}, errors.New("no answer"))
	k := n.keeper(c)
	_, _, err := k.Loaded(context.Background())
	assert.ErrorIs(t, err, ErrNotRunning)
	n.run(proc{pid: 7, exe: "/none/containerd", cmd: "containerd"})
	_, _, err = k.Loaded(context.Background())
	assert.ErrorContains(t, err, "no answer") // nothing is written, and nothing known
	n.apply(c)
	ok, differs, err := k.Loaded(context.Background())
	assert.NilError(t, err)
	assert.Assert(t, !ok)
	assert.Equal(t, differs, "it was started before its config was changed")
	rec, err := k.records.load(Containerd, containerdConfig)
	assert.NilError(t, err)
	rec.Written.Nanoseconds = int64(4 * time.Second) // the process started after 5 s
	assert.NilError(t, k.records.save(rec))
	ok, _, err = k.Loaded(context.Background())
	assert.NilError(t, err)
	assert.Assert(t, ok)
	n.put("/proc/sys/kernel/random/boot_id", "another boot\n")
	rec.Written.Nanoseconds = int64(time.Hour)
	assert.NilError(t, k.records.save(rec))
	ok, _, err = k.Loaded(context.Background())
	assert.NilError(t, err)
	assert.Assert(t, ok, "an engine of this boot has read what was written before it")
}

// TestLoadedOfCRIOThatWasNotRestarted does not believe a CRI-O that shows what its files say,
// as it does after SIGHUP: pods cannot use it before a restart.
func TestLoadedOfCRIOThatWasNotRestarted(t *testing.T) {
	n := newNode(t)
	n.run(proc{pid: 7, exe: "/none/crio", cmd: "crio"})
	c := n.config(CRIO)
	loaded := Live{Programs: map[string]string{}}
	for _, r := range c.Desired().Runtimes {
		loaded.Programs[r.Name] = r.Path
	}
	c.Ask = answers(loaded, nil)
	k := n.keeper(c)
	ok, _, err := k.Loaded(context.Background())
	assert.NilError(t, err)
	assert.Assert(t, ok, "nothing was written since it was started")
	n.apply(c)
	ok, differs, err := k.Loaded(context.Background())
	assert.NilError(t, err)
	assert.Assert(t, !ok)
	assert.Equal(t, differs, "it was started before its config was changed")
	rec, err := k.records.load(CRIO, crioConfig)
	assert.NilError(t, err)
	rec.Written.Nanoseconds = int64(4 * time.Second) // the process started after 5 s
	assert.NilError(t, k.records.save(rec))
	ok, _, err = k.Loaded(context.Background())
	assert.NilError(t, err)
	assert.Assert(t, ok)
}

func TestCRIOIsNotSignalled(t *testing.T) {
	n := newNode(t)
	n.run(proc{pid: 7, exe: "/none/crio", cmd: "crio"})
	c := n.config(CRIO)
	c.Ask = answers(Live{}, nil)
	_, err := n.keeper(c).Reconcile(context.Background())
	assert.Error(t, err, "restart crio.service: there is no systemctl on the host: use the restart mode none")
	c.Reload = Signal
	_, err = New(c, slog.New(slog.DiscardHandler))
	assert.ErrorContains(t, err, "the restart mode signal does not work for CRI-O")
}

// TestKeepDoesNotReloadInVain keeps the config of an engine that never uses it: there is
// one attempt, and none if the engine was started after the files were written.
func TestKeepDoesNotReloadInVain(t *testing.T) {
	n := newNode(t)
	n.run(proc{pid: 7, exe: "/none/dockerd", cmd: "dockerd", unit: "docker.service"})
	c := n.config(Docker)
	c.Ask, c.Reload = answers(Live{}, nil), None
	k := n.keeper(c)
	_, err := k.Reconcile(context.Background())
	assert.Error(t, err, "docker has not loaded its config, because the restart mode is none: run systemctl restart docker.service")
	_, err = k.Reconcile(context.Background())
	assert.ErrorContains(t, err, "docker has read its config but does not use it")
	assert.ErrorContains(t, err, "it is not restarted again")
}

// TestKeepWithADistributionThatRegistersTheRuntimeItself leaves the config of k3s with
// containerd 1.7 alone, and has it load once if it has not found the runtime.
func TestKeepWithADistributionThatRegistersTheRuntimeItself(t *testing.T) {
	const main = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
	for name, tc := range map[string]struct {
		program, err string
	}{
		"it has found it":     {"/usr/local/nvidia/toolkit/nvidia-container-runtime", ""},
		"it has not found it": {"", "containerd has not loaded its config, because the restart mode is none: run systemctl restart k3s.service"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.version = version{1, 7}
			n.put(main, "version = 2\n")
			n.run(proc{pid: 7, exe: "/none/k3s", cmd: "containerd -c " + main, unit: "k3s.service"})
			c := n.config(Containerd)
			c.SetAsDefault, c.Reload = true, None
			c.Ask = answers(Live{Programs: map[string]string{"nvidia": tc.program}, Default: "runc"}, nil)
			k := n.keeper(c)
			before := n.snapshot()
			p, err := k.Reconcile(context.Background())
			if tc.err == "" {
				assert.NilError(t, err)
			} else {
				assert.Error(t, err, tc.err)
			}
			assert.Assert(t, p.Empty())
			assert.Equal(t, n.snapshot(), before)
		})
	}
}

// TestSignalOnlyWhatIsSeen does not signal a process by the number that it has elsewhere.
func TestSignalOnlyWhatIsSeen(t *testing.T) {
	n := newNode(t)
	n.run(proc{pid: os.Getpid(), exe: "/none/containerd", cmd: "containerd"})
	c := n.config(Containerd)
	c.Ask, c.Reload = answers(Live{}, nil), Signal
	_, err := n.keeper(c).Reconcile(context.Background())
	assert.ErrorContains(t, err, "run it with the host's process IDs (hostPID), or use the restart mode systemd")
}
