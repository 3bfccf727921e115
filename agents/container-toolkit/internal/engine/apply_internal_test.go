package engine

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
)

// configs are what is on hosts before, by engine: file by file.
var configs = map[Name]map[string]map[string]string{
	Docker: {
		"nothing":           {},
		"an empty file":     {dockerConfig: ""},
		"tabs":              {dockerConfig: "{\n\t\"bip\": \"10.0.0.1/24\",\n\t\"features\": {\"buildkit\": true}\n}\n"},
		"one line":          {dockerConfig: `{"default-runtime":"kata","runtimes":{"kata":{"path":"/kata"}}}`},
		"a byte order mark": {dockerConfig: "\ufeff{\r\n  \"debug\": true\r\n}\r\n"},
		"NVIDIA's own":      {dockerConfig: "{\n    \"runtimes\": {\n        \"nvidia\": {\n            \"args\": [\"--debug\"],\n            \"path\": \"nvidia-container-runtime\"\n        }\n    }\n}"},
	},
	Containerd: {
		"nothing":       {},
		"only comments": {containerdConfig: "# nothing\n"},
		"Docker's":      {containerdConfig: "#   Copyright 2018-2022 Docker Inc.\n\ndisabled_plugins = []\n\n#root = \"/var/lib/containerd\"\n"},
		"version 2":     {containerdConfig: "version = 2\nroot = '/data' # big disk\n\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"p\"\n  [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n    default_runtime_name = \"runc\" # ours\n    [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n      runtime_type = \"io.containerd.runc.v2\"\n      [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n        SystemdCgroup = true"},
		"version 3 with imports": {
			containerdConfig:                  "version = 3\nimports = ['/etc/containerd/config.d/*.toml']\n[plugins.'io.containerd.cri.v1.runtime']\nenable_selinux = true\n",
			"/etc/containerd/config.d/a.toml": "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n",
		},
		"NVIDIA's own": {
			containerdConfig: "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\nruntime_type = \"io.containerd.runc.v2\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia.options]\nBinaryName = \"/usr/bin/nvidia-container-runtime\"\n",
		},
	},
	CRIO: {
		"nothing":      {},
		"a default":    {crioConfig: "[crio.runtime]\ndefault_runtime = \"crun\"\n[crio.runtime.runtimes.crun]\nruntime_path = \"/usr/bin/crun\"\nmonitor_path = \"/usr/libexec/crio/conmon\"\n"},
		"NVIDIA's own": {crioDropIn: "[crio.runtime.runtimes.nvidia]\nruntime_path = \"/usr/bin/nvidia-container-runtime\"\n"},
	},
}

// each calls test for each config, and each file of testdata/inputs, with a host that has it and a few
// settings.
func each(t *testing.T, test func(n node, c Config)) {
	inputs, err := filepath.Glob("testdata/inputs/*.toml")
	assert.NilError(t, err)
	for engine, hosts := range configs {
		hosts = maps.Clone(hosts)
		for _, path := range inputs {
			if engine == Containerd {
				hosts[filepath.Base(path)] = map[string]string{containerdConfig: input(t, filepath.Base(path))}
			}
		}
		for name, files := range hosts {
			for _, v := range []string{"", "1.7.0", "2.1.0"} {
				if v != "" && engine != Containerd {
					continue
				}
				t.Run(string(engine)+"/"+name+"/"+v, func(t *testing.T) {
					n := newNode(t)
					for path, text := range files {
						n.put(path, text)
					}
					c := n.config(engine)
					n.version = parseVersion(v)
					c.SetAsDefault, c.CDI = true, true
					test(n, c)
				})
			}
		}
	}
}

func TestUnconfigureLeavesEveryFileAsItWas(t *testing.T) {
	each(t, func(n node, c Config) {
		before := n.snapshot()
		p := n.apply(c)
		assert.Assert(n, !p.Empty())
		writes := n.writes()
		assert.Assert(n, n.apply(c).Empty())
		assert.Equal(n, n.writes(), writes, "the second configure wrote")
		n.undo(c)
		assert.Equal(n, cmp.Diff(before, n.snapshot()), "")
		assert.Assert(n, n.undo(c).Empty())
	})
}

func TestOtherSettingsAreReplacedAndTakenBack(t *testing.T) {
	each(t, func(n node, c Config) {
		before := n.snapshot()
		n.apply(c)
		c.SetAsDefault, c.RuntimeName, c.RuntimePath = false, "gpu", "/usr/bin/nvidia-container-runtime"
		n.apply(c)
		writes := n.writes()
		assert.Assert(n, n.apply(c).Empty())
		assert.Equal(n, n.writes(), writes)
		n.undo(c)
		assert.Equal(n, cmp.Diff(before, n.snapshot()), "")
	})
}

func TestWhatAUserAddedSinceStays(t *testing.T) {
	for name, tc := range map[string]struct {
		engine              Name
		path                string
		text, add, addAfter string
		version             version
	}{
		"Docker":            {Docker, dockerConfig, "{\n  \"a\": 1\n}\n", "{", "{\n  \"mine\": [1],", version{}},
		"containerd before": {Containerd, containerdConfig, "version = 2\n", "version = 2\n", "version = 2\n# mine\noom_score = 5\n", version{}},
		"containerd with a drop-in": {
			Containerd, containerdConfig, "version = 2\nimports = ['/a.toml'] # theirs\n", "version = 2\n",
			"version = 2\n# mine\noom_score = 5\n",
			version{2, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.version = tc.version
			n.put(tc.path, tc.text)
			c := n.config(tc.engine)
			n.apply(c)
			n.put(tc.path, strings.Replace(n.get(tc.path), tc.add, tc.addAfter, 1))
			writes := n.get(tc.path)
			assert.Assert(t, n.apply(c).Empty(), "an edit of a user is no reason to write")
			assert.Equal(t, n.get(tc.path), writes)
			n.undo(c)
			assert.Equal(t, n.get(tc.path), strings.Replace(tc.text, tc.add, tc.addAfter, 1))
		})
	}
}

func TestWhatAUserRemovedComesBack(t *testing.T) {
	each(t, func(n node, c Config) {
		before := n.snapshot()
		p := n.apply(c)
		last := p.Changes[len(p.Changes)-1]
		assert.NilError(n, os.WriteFile(filepath.Join(n.root, last.Path), last.Before, 0o600))
		if last.Before == nil {
			assert.NilError(n, os.Remove(filepath.Join(n.root, last.Path)))
		}
		assert.Assert(n, !n.apply(c).Empty())
		n.undo(c)
		assert.Equal(n, cmp.Diff(before, n.snapshot()), "")
	})
}

func TestUndoWithoutARecord(t *testing.T) {
	n := newNode(t)
	n.put(containerdConfig, "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"runc\"")
	n.put(dockerConfig, "{\n  \"debug\": true\n}\n")
	for _, engine := range []Name{Containerd, Docker} {
		c := n.config(engine)
		c.SetAsDefault = true
		n.apply(c)
	}
	assert.NilError(t, os.RemoveAll(filepath.Join(n.root, "var")))
	for _, engine := range []Name{Containerd, Docker} {
		c := n.config(engine)
		c.Recognize = true
		p := n.undo(c)
		assert.Assert(t, strings.Contains(strings.Join(p.Notes, ""), "no record"))
	}
	assert.Equal(t, n.get(containerdConfig), "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"runc\"")
	assert.Equal(t, n.get(dockerConfig), "{\n  \"debug\": true,\n  \"runtimes\": {}\n}\n")
}

// TestCRIOReadsNoTemporaryFile leaves none in the folder of which CRI-O reads every file, and
// removes the one that a killed process left above it.
func TestCRIOReadsNoTemporaryFile(t *testing.T) {
	n := newNode(t)
	c := n.config(CRIO)
	before := n.snapshot()
	n.apply(c)
	k := n.keeper(c)
	assert.Equal(t, k.host.staging(filepath.Join(n.root, crioDropIn)), filepath.Join(n.root, "etc/crio"))
	left := "/etc/crio/.99-nvidia.toml.tmp-1"
	n.put(left, "[crio")
	assert.NilError(t, os.Chtimes(filepath.Join(n.root, left), time.Unix(1, 0), time.Unix(1, 0)))
	n.undo(c)
	assert.Equal(t, n.snapshot(), before)
}

func TestAnotherProcessIsAtWork(t *testing.T) {
	n := newNode(t)
	k := n.keeper(n.config(Docker))
	unlock, err := k.lock()
	assert.NilError(t, err)
	defer unlock()
	_, err = k.Apply(context.Background())
	assert.ErrorContains(t, err, "another process configures a container engine")
}

func TestModeOwnerAndLinksAreKept(t *testing.T) {
	n := newNode(t)
	n.put("/data/config.toml", "version = 2\n")
	assert.NilError(t, os.Chmod(filepath.Join(n.root, "/data/config.toml"), 0o640))
	assert.NilError(t, os.Chown(filepath.Join(n.root, "/data/config.toml"), 12, 34))
	assert.NilError(t, os.MkdirAll(filepath.Join(n.root, "/etc/containerd"), 0o755))
	// An absolute link of the host leads to the host's file.
	assert.NilError(t, os.Symlink("/data/config.toml", filepath.Join(n.root, containerdConfig)))
	before := n.snapshot()
	n.apply(n.config(Containerd))
	assert.Assert(t, strings.Contains(n.snapshot(), "data/config.toml -rw-r----- 12:34"))
	n.undo(n.config(Containerd))
	assert.Equal(t, n.snapshot(), before)
}

// TestRandomHosts configures hosts with random configs, with random edits between.
func TestRandomHosts(t *testing.T) {
	lines := []string{
		"version = 2\n", "# c\n", "root = '/x'\n", "imports = [\n '/etc/containerd/x/*.toml',\n]\n", "\n",
		"[plugins.\"io.containerd.grpc.v1.cri\"]\n", "sandbox_image = \"p\" # p\r\n",
		"[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n", "default_runtime_name = 'runc'\n",
		"[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\n", "runtime_type = ''\n", "options.BinaryName = 'x'\n", "options.SystemdCgroup = true\n",
		"[plugins.cri.containerd.runtimes.runc]\n", "[[x]]\n", "[plugins]\n",
	}
	r := rand.New(rand.NewPCG(3, 4))
	done := 0
	for range 150 {
		var b strings.Builder
		for _, l := range lines {
			if r.IntN(3) == 0 {
				b.WriteString(l)
			}
		}
		text := b.String()
		if r.IntN(3) == 0 {
			text = strings.TrimRight(text, "\r\n")
		}
		n := newNode(t)
		n.put(containerdConfig, text)
		before := n.snapshot()
		c := n.config(Containerd)
		c.SetAsDefault, c.CDI = r.IntN(2) == 0, r.IntN(2) == 0
		k := n.keeper(c)
		if _, err := k.Apply(context.Background()); err != nil {
			assert.Equal(t, cmp.Diff(before, n.snapshot()), "", "after %v", err)
			continue
		}
		done++
		n.undo(c)
		assert.Equal(t, cmp.Diff(before, n.snapshot()), "")
	}
	assert.Assert(t, done > 20, "only %d configs were valid", done)
}

func TestAWriteThatFailsIsTakenBack(t *testing.T) {
	n := newNode(t)
	n.version = mergesTables()
	n.put(containerdConfig, "version = 2\n")
	n.put("/etc/containerd/conf.d", "a file in the way\n")
	before := n.snapshot()
	_, err := n.keeper(n.config(Containerd)).Apply(context.Background())
	assert.ErrorContains(t, err, "/etc/containerd/conf.d")
	assert.Equal(t, n.snapshot(), before)
}
