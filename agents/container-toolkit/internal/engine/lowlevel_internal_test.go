package engine

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"
)

// nvidia-container-runtime runs the program with which the engine runs the other containers.
func TestLowLevelIsTheProgramOfTheDefaultRuntime(t *testing.T) {
	const (
		cri    = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"
		crun   = "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.crun]\nruntime_type = \"io.containerd.runc.v2\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.crun.options]\nBinaryName = \"/opt/crun\"\n"
		kata   = "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.kata]\nruntime_type = \"io.containerd.kata.v2\"\n"
		crioOf = "[crio.runtime]\ndefault_runtime = \"crun\"\n[crio.runtime.runtimes.crun]\nruntime_root = \"/run/crun\"\n"
	)
	for name, tc := range map[string]struct {
		engine  Name
		files   map[string]string
		version version
		cmd     string
		want    string
	}{
		"containerd without a config":          {engine: Containerd},
		"containerd with crun beside":          {engine: Containerd, files: map[string]string{containerdConfig: cri + crun}},
		"containerd with crun":                 {engine: Containerd, files: map[string]string{containerdConfig: cri + "default_runtime_name = \"crun\"\n" + crun}, want: "/opt/crun"},
		"containerd 2.1 with crun":             {engine: Containerd, version: mergesTables(), files: map[string]string{containerdConfig: cri + "default_runtime_name = \"crun\"\n" + crun}, want: "/opt/crun"},
		"containerd with its own runc":         {engine: Containerd, files: map[string]string{containerdConfig: cri + "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nBinaryName = \"/usr/libexec/runc\"\n"}, want: "/usr/libexec/runc"},
		"containerd with virtual machines":     {engine: Containerd, files: map[string]string{containerdConfig: cri + "default_runtime_name = \"kata\"\n" + kata + crun}, want: "/opt/crun"},
		"NVIDIA's runtime is the default":      {engine: Containerd, files: map[string]string{containerdConfig: cri + "default_runtime_name = \"gpu\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.gpu.options]\nBinaryName = \"/usr/bin/nvidia-container-runtime.cdi\"\n"}},
		"version 1 of the config":              {engine: Containerd, files: map[string]string{containerdConfig: "[plugins.cri.containerd]\ndefault_runtime_name = \"c\"\n[plugins.cri.containerd.runtimes.c]\nruntime_type = \"io.containerd.runtime.v1.linux\"\nruntime_engine = \"/opt/crun\"\n"}, want: "/opt/crun"},
		"k3s with an old containerd":           {engine: Containerd, files: map[string]string{distributions()[0]: cri + "default_runtime_name = \"crun\"\n" + crun}, want: "/opt/crun"},
		"MicroK8s":                             {engine: Containerd, files: map[string]string{distributions()[3]: cri + "default_runtime_name = \"x\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.x.options]\nBinaryName = \"${RUNTIME}\"\n"}},
		"CRI-O of an unknown version":          {engine: CRIO},
		"CRI-O 1.30":                           {engine: CRIO, version: version{1, 30}, want: "runc"},
		"CRI-O 1.36":                           {engine: CRIO, version: version{1, 36}, want: "crun"},
		"CRI-O with crun":                      {engine: CRIO, files: map[string]string{crioConfig: crioOf + "runtime_path = \"/usr/libexec/crio/crun\"\n"}, want: "/usr/libexec/crio/crun"},
		"CRI-O with crun in its PATH":          {engine: CRIO, files: map[string]string{crioConfig: crioOf}, want: "crun"},
		"CRI-O 1.36 with another runc":         {engine: CRIO, version: version{1, 36}, files: map[string]string{crioConfig: "[crio.runtime.runtimes.runc]\nruntime_path = \"/opt/runc\"\n"}, want: "crun"},
		"CRI-O 1.30 with both":                 {engine: CRIO, version: version{1, 30}, files: map[string]string{crioConfig: "[crio.runtime.runtimes.runc]\nruntime_path = \"/opt/runc\"\n[crio.runtime.runtimes.crun]\nruntime_path = \"/opt/crun\"\n"}, want: "/opt/runc"},
		"CRI-O with virtual machines":          {engine: CRIO, files: map[string]string{crioConfig: "[crio.runtime]\ndefault_runtime = \"kata\"\n[crio.runtime.runtimes.kata]\nruntime_type = \"vm\"\nruntime_path = \"/opt/kata\"\n"}},
		"Docker without a config":              {engine: Docker},
		"Docker with crun":                     {engine: Docker, files: map[string]string{dockerConfig: `{"default-runtime":"crun","runtimes":{"crun":{"path":"/opt/crun"}}}`}, want: "/opt/crun"},
		"Docker with a runtime beside":         {engine: Docker, files: map[string]string{dockerConfig: `{"runtimes":{"crun":{"path":"/opt/crun"}}}`}},
		"Docker with crun on its command line": {engine: Docker, cmd: "dockerd --add-runtime crun=/opt/crun --add-runtime=x=/x --default-runtime crun", want: "/opt/crun"},
		"Docker with a shim":                   {engine: Docker, files: map[string]string{dockerConfig: `{"default-runtime":"kata","runtimes":{"kata":{"runtimeType":"io.containerd.kata.v2"}}}`}},
		"Docker with NVIDIA's runtime":         {engine: Docker, files: map[string]string{dockerConfig: `{"default-runtime":"nvidia","runtimes":{"nvidia":{"path":"nvidia-container-runtime"}}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.version = tc.version
			for path, text := range tc.files {
				n.put(path, text)
			}
			if tc.cmd != "" {
				n.run(proc{pid: 7, exe: "/none/" + tc.engine.program(), cmd: tc.cmd})
			}
			c := n.config(tc.engine)
			c.SetAsDefault = tc.cmd == ""
			k := n.keeper(c)
			// The runtimes of this package are not the engine's own.
			for _, step := range []string{"before", "after"} {
				got, err := k.LowLevel(context.Background())
				assert.NilError(t, err)
				assert.Equal(t, got, tc.want, "%s the change", step)
				n.apply(c)
			}
		})
	}
}
