package engine

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// dockerd does not start if a setting is both on its command line and in daemon.json. CRI-O prefers its
// command line.
func TestFlagsOfTheEngine(t *testing.T) {
	const dockerRefuses = ", and dockerd does not start if /etc/docker/daemon.json has this setting too: remove it from my.service and restart the service, or "
	for name, tc := range map[string]struct {
		cmd, env string
		change   func(*Config)
		err      string
		// has and not are in the config file after the change.
		has, not string
	}{
		"no flags":                        {cmd: "dockerd", has: `"default-runtime": "nvidia"`},
		"another default runtime":         {cmd: "dockerd --default-runtime crun", err: "was started with --default-runtime=crun" + dockerRefuses + "do not make the NVIDIA runtime the default: --nvidia-runtime-set-as-default=false"},
		"another default runtime, =":      {cmd: "dockerd -H fd:// --default-runtime=runc", err: "was started with --default-runtime=runc" + dockerRefuses},
		"the desired default runtime":     {cmd: "dockerd --default-runtime=crun --default-runtime=nvidia", has: `"runtimes"`, not: "default-runtime"},
		"no default runtime is asked for": {cmd: "dockerd --default-runtime=crun", change: func(c *Config) { c.SetAsDefault = false }, has: `"runtimes"`, not: "default-runtime"},
		"runtimes":                        {cmd: "dockerd --add-runtime a=/a --add-runtime=nvidia=/x", has: `"nvidia-cdi"`},
		"another feature":                 {cmd: "dockerd --feature containerd-snapshotter", err: "was started with --feature" + dockerRefuses + "add --feature=cdi=true there"},
		"CDI is off":                      {cmd: "dockerd --feature cdi=true --feature cdi=false", err: "was started with --feature" + dockerRefuses},
		"CDI is on":                       {cmd: "dockerd --feature=a --feature cdi", has: "default-runtime", not: "features"},
		"CDI is not asked for":            {cmd: "dockerd --feature=a", change: func(c *Config) { c.CDI = false }, has: "default-runtime", not: "features"},
		"CRI-O":                           {cmd: "crio", has: `default_runtime = "nvidia"`},
		"CRI-O with another default":      {cmd: "crio --default-runtime crun", err: "was started with --default-runtime=crun, and crio then ignores this setting in /etc/crio/crio.conf.d/99-nvidia.toml: remove it from my.service"},
		"CRI-O with a variable":           {cmd: "crio", env: "CONTAINER_DEFAULT_RUNTIME=crun\x00", err: "was started with CONTAINER_DEFAULT_RUNTIME=crun, and crio then"},
		"CRI-O with the desired default":  {cmd: "crio --default-runtime nvidia", has: "runtimes.nvidia-cdi", not: "default_runtime"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			program, _, _ := strings.Cut(tc.cmd, " ")
			engine := map[string]Name{"dockerd": Docker, "crio": CRIO}[program]
			n.run(proc{pid: 7, exe: "/none/" + program, cmd: tc.cmd, env: tc.env, unit: "my.service"})
			c := n.config(engine)
			c.SetAsDefault, c.CDI = true, true
			if tc.change != nil {
				tc.change(&c)
			}
			before := n.snapshot()
			_, err := n.keeper(c).Apply(context.Background())
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				assert.Equal(t, n.snapshot(), before)
				return
			}
			assert.NilError(t, err)
			text := n.get(map[Name]string{Docker: dockerConfig, CRIO: crioDropIn}[engine])
			assert.Assert(t, strings.Contains(text, tc.has), "%s", text)
			assert.Assert(t, tc.not == "" || !strings.Contains(text, tc.not), "%s", text)
			n.undo(c)
			assert.Equal(t, n.snapshot(), before)
		})
	}
}

// TestRealCRIOPrefersItsCommandLine is the reason to reject its flag.
func TestRealCRIOPrefersItsCommandLine(t *testing.T) {
	crio, err := filepath.Abs("../../../../bin/cluster-components/crio")
	assert.NilError(t, err)
	if !exists(crio) {
		t.Skip("this machine has no crio")
	}
	r := newReal(t, CRIO, crio)
	r.put("config", "[crio.runtime]\ndefault_runtime = \"nvidia\"\n[crio.runtime.runtimes.nvidia]\nruntime_path = \"/x\"\n[crio.runtime.runtimes.runc]\nruntime_path = \"/y\"\n")
	for flag, env := range map[string]string{"--default-runtime=runc": "", "--log-level=warn": "CONTAINER_DEFAULT_RUNTIME=runc"} {
		cmd := exec.CommandContext(t.Context(), crio, "--config", filepath.Join(r.dir, "config"), "--config-dir", filepath.Join(r.dir, "conf.d"), flag, "config")
		cmd.Env = []string{env}
		out, err := cmd.Output()
		assert.NilError(t, err)
		assert.Assert(t, strings.Contains(string(out), "\ndefault_runtime = \"runc\"\n"), "%s %s", flag, env)
	}
}
