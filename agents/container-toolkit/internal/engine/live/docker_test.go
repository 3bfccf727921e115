package live_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/engine"
	"outrigger.dev/agents/container-toolkit/internal/engine/live"
	"outrigger.dev/pkg/agent/agenttest"
)

// TestRealDockerLoadsItsConfig keeps the config of a running dockerd, which loads it
// without a restart.
func TestRealDockerLoadsItsConfig(t *testing.T) {
	eachDocker(t, func(t *testing.T, program string) { newReal(t, engine.Docker).loadsItsConfig(program) })
}

// eachDocker runs a test with each dockerd that this machine has.
func eachDocker(t *testing.T, test func(t *testing.T, program string)) {
	t.Helper()
	built, err := filepath.Abs("../../../../../bin/cluster-components")
	assert.NilError(t, err)
	// Each starts the containerd beside it.
	path := os.Getenv("PATH")
	found := false
	for name, dir := range map[string]string{"current": built, "of the distribution": "/usr/sbin"} {
		program := filepath.Join(dir, "dockerd")
		if _, err := os.Stat(program); err != nil {
			continue
		}
		found = true
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", dir+":"+path)
			test(t, program)
		})
	}
	if !found {
		t.Skip("this machine has no dockerd")
	}
}

// dockerFlags returns the flags of a dockerd that leaves this machine alone.
func (r real) dockerFlags() []string {
	return []string{
		"--config-file", filepath.Join(r.dir, "config"), "--host", "unix://" + r.config.Socket,
		"--data-root", filepath.Join(r.dir, "data"), "--exec-root", filepath.Join(r.dir, "exec"), "--pidfile", filepath.Join(r.dir, "pid"),
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--userland-proxy=false", "--storage-driver", "vfs",
	}
}

// TestRealDockerHasTheSettingOnItsCommandLine changes no config with which dockerd would not start.
func TestRealDockerHasTheSettingOnItsCommandLine(t *testing.T) {
	eachDocker(t, func(t *testing.T, program string) {
		r := newReal(t, engine.Docker)
		r.config.CDI = false
		flags := append(r.dockerFlags(), "--default-runtime=runc", "--add-runtime=nvidia=/x")
		r.put("config", `{"default-runtime": "nvidia"}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, flags...).CombinedOutput()
		assert.Assert(t, err != nil && strings.Contains(string(out), "specified both as a flag and in the configuration file: default-runtime"), "%s", out)
		r.put("config", "{}\n")
		r.supervised(program, flags...)
		k := r.keeper()
		agenttest.Poll(r, "dockerd answers", func() bool { _, differs, err := k.Loaded(context.Background()); return err == nil && differs != "" })
		_, err = k.Reconcile(context.Background())
		assert.ErrorContains(t, err, "was started with --default-runtime=runc, and dockerd does not start if "+r.config.ConfigPath+" has this setting too")
		assert.Equal(t, r.get("config"), "{}\n")
		// dockerd merges runtimes, and prefers the file.
		r.config.SetAsDefault = false
		k = r.keeper()
		_, err = k.Reconcile(context.Background())
		assert.NilError(t, err)
		loaded, differs, err := k.Loaded(context.Background())
		assert.NilError(t, err)
		assert.Assert(t, loaded, differs)
	})
}

// TestRealDockerHasTheLowLevelRuntime compares the program with the answer of a running dockerd.
func TestRealDockerHasTheLowLevelRuntime(t *testing.T) {
	eachDocker(t, func(t *testing.T, program string) {
		for name, tc := range map[string]struct {
			config string
			flags  []string
		}{
			"in its config":       {config: `{"default-runtime": "fast", "runtimes": {"fast": {"path": "/usr/bin/crun"}}}`},
			"on its command line": {config: "{}", flags: []string{"--default-runtime=fast", "--add-runtime=fast=/usr/bin/crun"}},
			"in both":             {config: `{"runtimes": {"fast": {"path": "/opt/crun"}}}`, flags: []string{"--default-runtime=fast", "--add-runtime=fast=/usr/bin/crun"}},
		} {
			t.Run(name, func(t *testing.T) {
				r := newReal(t, engine.Docker)
				r.put("config", tc.config)
				r.supervised(program, append(r.dockerFlags(), tc.flags...)...)
				var answer engine.Live
				agenttest.Poll(r, "dockerd answers", func() bool {
					var err error
					answer, err = live.Ask(context.Background(), engine.Docker, r.config.Socket)
					return err == nil
				})
				r.config.SetAsDefault, r.config.CDI = false, false
				got, err := r.keeper().LowLevel(context.Background())
				assert.NilError(t, err)
				assert.Equal(t, got, answer.Programs[answer.Default])
			})
		}
	})
}

func (r real) loadsItsConfig(program string) {
	t := r.T
	r.config.CDI = false
	text := "{\n  \"log-level\": \"warn\",\n  \"features\": {\"buildkit\": true}\n}\n"
	r.put("config", text)
	starts := r.supervised(program, r.dockerFlags()...)
	k := r.keeper()
	agenttest.Poll(r, "dockerd answers", func() bool { _, differs, err := k.Loaded(context.Background()); return err == nil && differs != "" })
	_, err := k.Reconcile(context.Background())
	assert.NilError(t, err)
	answer, err := live.Ask(context.Background(), engine.Docker, r.config.Socket)
	assert.NilError(t, err)
	assert.Equal(t, answer.Programs["nvidia-legacy"], r.config.RuntimePath+".legacy")
	assert.Equal(t, answer.Default, "nvidia")
	p, err := r.keeper().Reconcile(context.Background())
	assert.NilError(t, err)
	assert.Assert(t, p.Empty())
	_, err = k.Withdraw(context.Background())
	assert.NilError(t, err)
	assert.Equal(t, r.get("config"), text)
	assert.Equal(t, starts(), 1)
}
