package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/engine"
)

func TestEngineConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		env     map[string]string
		args    []string
		change  func(*engine.Config)
		enabled bool
		err     string
	}{
		"the defaults": {enabled: true, change: func(*engine.Config) {}},
		"NVIDIA's old variables": {
			env: map[string]string{
				"RUNTIME": "containerd", "CONTAINERD_CONFIG": "/c", "CONTAINERD_SOCKET": "/s", "CONTAINERD_RUNTIME_CLASS": "gpu",
				"CONTAINERD_SET_AS_DEFAULT": "false", "CDI_ENABLED": "true", "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_ANNOTATION_PREFIXES": "cdi.k8s.io/,x/",
			},
			enabled: true,
			change: func(c *engine.Config) {
				c.Engine, c.ConfigPath, c.Socket, c.RuntimeName, c.SetAsDefault, c.CDI = engine.Containerd, "/c", "/s", "gpu", false, true
				c.Annotations = []string{"cdi.k8s.io/*", "x/*"}
			},
		},
		"the newer variable wins": {
			env:     map[string]string{"RUNTIME_CONFIG": "/new", "DOCKER_CONFIG": "/old", "RUNTIME_ENABLE_CDI": "false", "CDI_ENABLED": "true"},
			enabled: true,
			change:  func(c *engine.Config) { c.ConfigPath = "/new" },
		},
		"no runtime config": {env: map[string]string{"NO_RUNTIME_CONFIG": "true"}, change: func(*engine.Config) {}},
		"no runtime":        {args: []string{"--runtime="}, change: func(*engine.Config) {}},
		"CRI-O with its dash": {
			args: []string{"--runtime=cri-o", "--runtime-restart-mode=none"}, enabled: true,
			change: func(c *engine.Config) { c.Engine, c.Reload = engine.CRIO, engine.None },
		},
		"another engine": {args: []string{"--runtime=podman"}, err: `flag --runtime (environment variable RUNTIME): invalid value "podman": must be docker, containerd or crio`},
		"another mode":   {env: map[string]string{"RUNTIME_RESTART_MODE": "kill"}, err: `flag --runtime-restart-mode (environment variable RUNTIME_RESTART_MODE): invalid value "kill": must be signal, systemd or none`},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			var s settings
			app := cli.App{Name: "test", Flags: s.engineFlags(), Action: func(*cli.Context) error {
				s.engine.complete("/usr/local/nvidia/toolkit", s.tools.prefixes)
				s.engine.Ask = nil
				want := engine.Config{
					Engine: engine.Docker, HostRoot: "/host", RuntimeName: "nvidia", Modes: true, SetAsDefault: true,
					RuntimePath: "/usr/local/nvidia/toolkit/nvidia-container-runtime", RuntimeType: "io.containerd.runc.v2",
				}
				tc.change(&want)
				assert.Equal(t, cmp.Diff(want, s.engine.Config), "")
				assert.Equal(t, s.engine.enabled, tc.enabled)
				return nil
			}}
			if err := app.Run(append([]string{"test"}, tc.args...)); tc.err != "" {
				assert.Error(t, err, tc.err)
			} else {
				assert.NilError(t, err)
			}
		})
	}
}
