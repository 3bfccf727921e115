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

// An engine that was started before its config was changed has not read it. It is told only once to
// load the config, but a person is told as long as the engine does not use it.
func TestReconcileSaysWhyAnEngineDoesNotUseItsConfig(t *testing.T) {
	const byHand = "docker has not loaded its config, because the restart mode is none: run systemctl restart docker.service"
	const inVain = "docker has read its config but does not use it: the program of the runtime nvidia is \"\", not /usr/local/nvidia/toolkit/nvidia-container-runtime; it is not restarted again"
	for name, tc := range map[string]struct {
		engine Name
		reload ReloadMode
		// systemctl is a program of the host, which cannot run.
		systemctl string
		// again is after the first call.
		again       func(k *Keeper) error
		first, then string
	}{
		"a person restarts it": {engine: Docker, reload: None, first: byHand, then: byHand},
		"a person has restarted it": {
			engine: Docker, reload: None, first: byHand, then: inVain,
			again: func(k *Keeper) error { return startAfterWrite(k, Docker, dockerConfig) },
		},
		"systemctl reloads Docker": {engine: Docker, reload: Systemd, systemctl: "#!/none\n", first: "run /usr/bin/systemctl reload docker.service: ", then: inVain},
		"systemctl does not restart CRI-O": {
			engine: CRIO, reload: Systemd, systemctl: "#!/none\n", first: "run /usr/bin/systemctl restart docker.service: ",
			then: "crio was told to load its config, and still runs: the program of the runtime nvidia is \"\", not /usr/local/nvidia/toolkit/nvidia-container-runtime: run systemctl restart docker.service",
		},
		"the host lacks systemctl": {
			engine: Docker, reload: Systemd,
			first: "restart docker.service: there is no systemctl on the host: use the restart mode signal",
			then:  "restart docker.service: there is no systemctl on the host: use the restart mode signal",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if tc.systemctl != "" {
				n.put("/usr/bin/systemctl", tc.systemctl)
				assert.NilError(t, os.Chmod(n.root+"/usr/bin/systemctl", 0o755))
			}
			n.run(proc{pid: 7, exe: "/none/" + tc.engine.program(), cmd: tc.engine.program(), unit: "docker.service"})
			c := n.config(tc.engine)
			c.Ask, c.Reload = answers(Live{}, nil), tc.reload
			k := n.keeper(c)
			_, err := k.Reconcile(context.Background())
			assert.ErrorContains(t, err, tc.first)
			if tc.again != nil {
				assert.NilError(t, tc.again(k))
			}
			for range 2 {
				_, err = k.Reconcile(context.Background())
				assert.ErrorContains(t, err, tc.then)
			}
		})
	}
}

// startAfterWrite moves the time of the write before the start of the process, which is 5 s after the
// boot.
func startAfterWrite(k *Keeper, engine Name, config string) error {
	rec, err := k.records.load(engine, config)
	if err != nil {
		return err
	}
	rec.Written.Nanoseconds = int64(4 * time.Second)
	return k.records.save(rec)
}

// The agent started without flags, on a machine without Docker, wrote Docker's config and was ready.
func TestReconcileNeedsAnEngine(t *testing.T) {
	const fix = ", or turn the configuration off with --no-runtime-config (NO_RUNTIME_CONFIG)"
	for name, tc := range map[string]struct {
		engine  Name
		files   map[string]string
		procs   []proc
		named   string
		program bool
		err     string
	}{
		"Docker is missing": {
			engine: Docker,
			err:    "find docker: it does not run, and the host has neither its program nor its config /etc/docker/daemon.json: install it, or set --runtime (RUNTIME) to the engine of the node" + fix,
		},
		"containerd is missing": {
			engine: Containerd,
			err:    "find containerd: it does not run, and the host has neither its program nor its config /etc/containerd/config.toml: install it, or set --runtime (RUNTIME) to the engine of the node" + fix,
		},
		"another engine runs": {
			engine: Docker, procs: []proc{{pid: 7, exe: "/none/crio", cmd: "crio"}},
			err: "find docker: it does not run, and the host has neither its program nor its config /etc/docker/daemon.json: set --runtime (RUNTIME) to crio, which runs on the node" + fix,
		},
		"CRI-O has a config":               {engine: CRIO, files: map[string]string{crioConfig: "[crio]\n"}},
		"Docker is installed":              {engine: Docker, program: true},
		"k3s is installed":                 {engine: Containerd, files: map[string]string{"/var/lib/rancher/k3s/agent/etc/containerd/certs.d/x": ""}},
		"a flag names the config":          {engine: Docker, named: "/srv/daemon.json"},
		"the engine runs without a config": {engine: CRIO, procs: []proc{{pid: 7, exe: "/none/crio", cmd: "crio"}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.version = mergesTables()
			n.put("proc/1/cmdline", "init\x00")
			for path, text := range tc.files {
				n.put(path, text)
			}
			if tc.program {
				n.put("/usr/bin/"+tc.engine.program(), "")
				assert.NilError(t, os.Chmod(n.root+"/usr/bin/"+tc.engine.program(), 0o755))
			}
			n.run(tc.procs...)
			before := n.snapshot()
			c := n.config(tc.engine)
			c.ConfigPath, c.Reload = tc.named, None
			p, err := n.keeper(c).Reconcile(context.Background())
			if tc.err != "" {
				assert.Error(t, err, tc.err)
				assert.Equal(t, n.snapshot(), before)
				return
			}
			assert.Assert(t, len(tc.procs) > 0 || err == nil, "%v", err)
			assert.Assert(t, !p.Empty())
		})
	}
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
