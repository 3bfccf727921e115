package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/container-toolkit/internal/rawtoml"
)

func desired() Desired {
	return Config{
		RuntimeName: "nvidia", RuntimePath: "/usr/local/nvidia/toolkit/nvidia-container-runtime", Modes: true, SetAsDefault: true, CDI: true,
		Annotations: []string{"cdi.k8s.io/*"},
	}.Desired()
}

const user2 = `# The node's containerd.
version = 2
imports = ["/etc/containerd/own.d/*.toml"] # ours
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "mine/pause:1" # mirrored
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "crun" # faster
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]
        BinaryName = "/usr/bin/crun"
        SystemdCgroup = true
`

// TestEditContainerd shows what is written for each version of containerd and its config.
func TestEditContainerd(t *testing.T) {
	edit := containerdEdit{main: containerdConfig, dropIn: containerdDropIn}
	with := func(v version, change func(*containerdEdit)) containerdEdit {
		e := edit
		e.engine = v
		if change != nil {
			change(&e)
		}
		return e
	}
	for name, tc := range map[string]struct {
		edit  containerdEdit
		files []file
	}{
		"config 1 of containerd 1.6":  {with(version{1, 6}, nil), []file{{containerdConfig, []byte("disabled_plugins = []\n[plugins.cri.containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n")}}},
		"config 2 of containerd 1.7":  {with(version{1, 7}, nil), []file{{containerdConfig, []byte(user2)}}},
		"config 2 of containerd 2.1":  {with(version{2, 1}, nil), []file{{containerdConfig, []byte(user2)}}},
		"config 3 of containerd 2.0":  {with(version{2, 0}, nil), []file{{containerdConfig, []byte("version = 3\n")}}},
		"no config of containerd 2.2": {with(version{2, 2}, nil), []file{{containerdConfig, nil}}},
		"an import replaces the table in containerd 1.7": {with(version{1, 7}, nil), []file{
			{containerdConfig, []byte("version = 2\nimports = ['/etc/containerd/own.d/*.toml']\n")},
			{"/etc/containerd/own.d/a.toml", []byte("version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nenable_selinux = true\n")},
		}},
		"k3s with containerd 2.1": {with(version{2, 1}, func(e *containerdEdit) {
			e.generated, e.main, e.dropIn = true, "/k3s/config.toml", "/k3s/config-v3.toml.d/99-nvidia.toml"
		}), []file{{"/k3s/config.toml", []byte("version = 3\nimports = [\"/k3s/config-v3.toml.d/*.toml\"]\n")}}},
		"k3s with containerd 1.7": {with(version{1, 7}, func(e *containerdEdit) { e.generated = true }), []file{{containerdConfig, []byte("version = 2\n")}}},
		"k0s":                     {with(version{1, 7}, func(e *containerdEdit) { e.external, e.dropIn = true, k0sDropIn }), []file{{k0sConfig, []byte("# k0s_managed=true\nversion = 2\n")}}},
		"microk8s": {with(version{1, 7}, func(e *containerdEdit) { e.noDropIn = true }), []file{{containerdConfig, []byte(
			"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"${RUNTIME}\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type = \"${RUNTIME_TYPE}\"\n")}}},
		"a drop-in of others": {with(version{2, 1}, nil), []file{
			{containerdConfig, []byte("version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n")},
			{containerdDropIn, []byte("version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\nBinaryName = '/usr/bin/nvidia-container-runtime'\n")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := tc.edit.edit(tc.files, desired())
			assert.NilError(t, err)
			var b strings.Builder
			for _, f := range e.files {
				fmt.Fprintf(&b, "--- %s\n%s", f.path, f.text)
			}
			for _, note := range e.notes {
				fmt.Fprintln(&b, "--- note:", note)
			}
			golden.Assert(t, b.String(), "containerd/"+name+".golden")
		})
	}
}

func TestEditCRIO(t *testing.T) {
	e, err := editCRIO([]file{
		{crioConfig, []byte("[crio.runtime]\ndefault_runtime = \"crun\"\n[crio.runtime.runtimes.crun]\nruntime_path = \"/usr/bin/crun\"\nruntime_root = \"/run/crun\"\nallowed_annotations = [\"a\", \"b\"]\n")},
		{"/etc/crio/crio.conf.d/10-crun.conf", []byte("[crio.runtime.runtimes.crun]\nmonitor_path = \"/usr/libexec/crio/conmon\"\n")},
	}, crioDropIn, version{}, desired())
	assert.NilError(t, err)
	golden.Assert(t, string(textOf(e.files, crioDropIn)), "crio.golden")
}

func TestEditDockerRejects(t *testing.T) {
	for name, tc := range map[string]struct{ text, err string }{
		"a comma too many":            {"{\n  \"a\": 1,\n}", "read /etc/docker/daemon.json: line 3: invalid character '}'"},
		"a list":                      {"[]", "cannot unmarshal array"},
		"runtimes that are no object": {`{"runtimes": []}`, "edit /etc/docker/daemon.json: runtimes is not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := editDocker([]file{{dockerConfig, []byte(tc.text)}}, dockerConfig, desired())
			assert.ErrorContains(t, err, tc.err)
		})
	}
}

func TestEditContainerdRejectsAnInlineTable(t *testing.T) {
	e := containerdEdit{main: containerdConfig, dropIn: containerdDropIn}
	text := "version = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\nruntimes = {runc = {runtime_type = 'x'}}\n"
	_, err := e.edit([]file{{containerdConfig, []byte(text)}}, desired())
	assert.Error(t, err, `edit /etc/containerd/config.toml: line 4: plugins."io.containerd.grpc.v1.cri".containerd.runtimes is an inline table, which cannot be extended: write it as [plugins."io.containerd.grpc.v1.cri".containerd.runtimes]`)
}

func TestEditContainerdRejectsAConfigWithoutCRI(t *testing.T) {
	_, err := containerdEdit{}.edit([]file{{containerdConfig, []byte("disabled_plugins = [\"cri\"]\n")}}, desired())
	assert.Error(t, err, `edit /etc/containerd/config.toml: it turns containerd's support for Kubernetes off: remove "cri" from disabled_plugins first`)
}

func FuzzDocker(f *testing.F) {
	for _, files := range configs[Docker] {
		f.Add(files[dockerConfig], true)
	}
	f.Add(`{"features": {"a": 1}, "runtimes": {"nvidia-cdi": null}, "default-runtime": []}`, false)
	f.Fuzz(func(t *testing.T, text string, standard bool) {
		d := desired()
		if !standard {
			d.Default = ""
		}
		e, err := editDocker([]file{{dockerConfig, []byte(text)}}, dockerConfig, d)
		if err != nil {
			return
		}
		after := e.files[0].text
		var config struct {
			Runtimes map[string]struct{ Path string }
		}
		assert.NilError(t, json.Unmarshal([]byte(strings.TrimPrefix(string(after), string(bom()))), &config))
		again, err := editDocker([]file{{dockerConfig, after}}, dockerConfig, d)
		assert.NilError(t, err)
		assert.Equal(t, string(again.files[0].text), string(after), "a second edit changes more")
		back, err := stripDocker(after, []byte(text), after)
		assert.NilError(t, err)
		if strings.TrimSpace(strings.TrimPrefix(text, string(bom()))) == "" {
			text = "{}"
		}
		assert.Assert(t, sameJSON(back, []byte(text)), "%q is not %q", back, text)
	})
}

func FuzzContainerd(f *testing.F) {
	for _, files := range configs[Containerd] {
		f.Add(files[containerdConfig], 1)
	}
	f.Add(user2, 2)
	f.Fuzz(func(t *testing.T, text string, major int) {
		if strings.Contains(text, "nvidia-container-toolkit") {
			return
		}
		c := containerdEdit{main: containerdConfig, dropIn: containerdDropIn, engine: version{major, 7}}
		e, err := c.edit([]file{{containerdConfig, []byte(text)}}, desired())
		if err != nil {
			return
		}
		for _, f := range e.files {
			var doc map[string]any
			assert.NilError(t, toml.Unmarshal(f.text, &doc), "%s", f.text)
		}
		main := file{containerdConfig, textOf(e.files, containerdConfig)}
		if main.text == nil {
			return
		}
		back, err := rawtoml.Strip(main.text)
		assert.NilError(t, err)
		back, err = rawtoml.RemoveFromList(back, []string{"imports"}, importPattern(containerdDropIn))
		assert.NilError(t, err)
		assert.Equal(t, string(back), text)
	})
}
