package engine

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"gotest.tools/v3/assert"
)

// containerds returns the programs of containerd that this machine has, by version.
func containerds(t *testing.T) map[string]string {
	built, err := filepath.Abs("../../../../bin/cluster-components/containerd")
	assert.NilError(t, err)
	out := map[string]string{}
	for _, program := range []string{built, "/usr/bin/containerd"} {
		if text, err := exec.CommandContext(t.Context(), program, "--version").Output(); err == nil {
			out[parseVersion(string(text)).String()] = program
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
	config Config
}

func newReal(t *testing.T, engine Name, program string) real {
	dir := t.TempDir()
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "proc"), 0o755))
	return real{T: t, dir: dir, config: Config{
		Engine: engine, HostRoot: "/", ProcRoot: filepath.Join(dir, "proc"), Executable: program,
		ConfigPath: filepath.Join(dir, "config"), DropIn: filepath.Join(dir, "conf.d/99-nvidia.toml"),
		Socket: filepath.Join(dir, "engine.sock"), RuntimePath: "/usr/local/nvidia/toolkit/nvidia-container-runtime",
		SetAsDefault: true, CDI: true, Modes: true, Records: filepath.Join(dir, "records/engine"),
	}}
}

func (r real) keeper() *Keeper {
	r.Helper()
	k, err := New(r.config, slog.New(slog.DiscardHandler))
	assert.NilError(r, err)
	return k
}

func (r real) put(name, text string) {
	r.Helper()
	assert.NilError(r, os.MkdirAll(filepath.Dir(filepath.Join(r.dir, name)), 0o755))
	assert.NilError(r, os.WriteFile(filepath.Join(r.dir, name), []byte(strings.ReplaceAll(text, "DIR", r.dir)), 0o644))
}

func (r real) get(name string) string {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	assert.NilError(r, err)
	return string(data)
}

// realConfigs are configs of users that containerd reads: settings in the CRI plugin's
// table, a runtime table to inherit from, and an import.
var realConfigs = map[string]string{
	"version 2": `# the node's own
version = 2
imports = ["DIR/own.d/*.toml"] # ours
[plugins."io.containerd.grpc.v1.cri"]
  max_concurrent_downloads = 7
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    privileged_without_host_devices = true
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true`,
	"version 2 without the table": "version = 2\noom_score = -10\n",
	"version 1":                   "root = \"/var/lib/containerd\"\n[plugins.cri]\nenable_selinux = true\n[plugins.cri.containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\n",
	"version 1 without the table": "oom_score = -10\n",
	"nothing":                     "",
}

func TestRealContainerdReadsTheConfig(t *testing.T) {
	for v, program := range containerds(t) {
		configs := maps.Clone(realConfigs)
		for name, text := range spelledConfigs(t) {
			if version3 := !strings.HasPrefix(text, "version = 2"); !version3 || parseVersion(v+".0").atLeast(version2()) {
				configs[name] = text
			}
		}
		for name, text := range configs {
			t.Run(v+"/"+name, func(t *testing.T) {
				r := newReal(t, Containerd, program)
				if text != "" {
					r.put("config", text)
				}
				k := r.keeper()
				// Apply compares what containerd would load before and after.
				p, err := k.Apply(context.Background())
				assert.NilError(t, err)
				assert.Assert(t, !p.Empty())
				tg, err := k.locate(context.Background())
				assert.NilError(t, err)
				doc, err := k.dump(context.Background(), tg)
				assert.NilError(t, err)
				cri := tableAt(doc, schemaOf(doc).cri)
				runtimes := []string{"containerd", "runtimes", "nvidia-cdi"}
				assert.Equal(t, valueAt(cri, append(runtimes, "options", "BinaryName")), r.config.RuntimePath+".cdi")
				assert.Equal(t, valueAt(cri, []string{"containerd", "default_runtime_name"}), "nvidia")
				if _, spelled := realConfigs[name]; !spelled {
					assert.Equal(t, valueAt(cri, append(runtimes, "options", "SystemdCgroup")), true)
				}
				if name == "version 2" {
					assert.Equal(t, valueAt(cri, append(runtimes, "options", "SystemdCgroup")), true)
					assert.Equal(t, valueAt(cri, append(runtimes, "privileged_without_host_devices")), true)
				}
				_, err = k.Undo(context.Background())
				assert.NilError(t, err)
				if text != "" {
					assert.Equal(t, r.get("config"), strings.ReplaceAll(text, "DIR", r.dir))
				}
				entries, err := os.ReadDir(r.dir)
				assert.NilError(t, err)
				for _, e := range entries {
					assert.Assert(t, e.Name() == "proc" || e.Name() == "config" && text != "", "%s stays", e.Name())
				}
			})
		}
	}
}

// defaultOf returns the program of the default runtime that a running engine would have.
func defaultOf(t *testing.T, text string, table []string) string {
	t.Helper()
	var doc map[string]any
	assert.NilError(t, toml.Unmarshal([]byte(text), &doc))
	if table == nil {
		table = append(schemaOf(doc).cri, "containerd")
	}
	for _, name := range []string{"default_runtime_name", "default_runtime"} {
		if name, _ := valueAt(tableAt(doc, table), []string{name}).(string); name != "" {
			runtime := tableAt(doc, append(slices.Clone(table), "runtimes", name))
			program, _ := valueAt(runtime, []string{"runtime_path"}).(string)
			return cmp.Or(containerdLowLevel(runtime), program, name)
		}
	}
	t.Fatalf("the config has no default runtime:\n%s", text)
	return ""
}

// The low-level runtime is the default runtime that the engine's own program reads from its files.
func TestRealEnginesHaveTheLowLevelRuntime(t *testing.T) {
	const crun = `version = 2
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "fast"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.fast]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.fast.options]
BinaryName = "/usr/bin/crun"`
	for v, program := range containerds(t) {
		for name, text := range map[string]string{"no config": "", "a default": crun, "runc": realConfigs["version 2"]} {
			t.Run("containerd/"+v+"/"+name, func(t *testing.T) {
				r := newReal(t, Containerd, program)
				if text != "" {
					r.put("config", text)
				}
				k := r.keeper()
				args := []string{"--config", filepath.Join(r.dir, "config"), "config", "dump"}
				if text == "" {
					args = []string{"config", "default"}
				}
				dump, err := k.host.run(context.Background(), program, "containerd", args...)
				assert.NilError(t, err)
				got, err := k.LowLevel(context.Background())
				assert.NilError(t, err)
				assert.Equal(t, cmp.Or(got, "runc"), defaultOf(t, dump, nil))
			})
		}
	}
	crio, err := filepath.Abs("../../../../bin/cluster-components/crio")
	assert.NilError(t, err)
	for name, text := range map[string]string{
		"no config": "", "a default": "[crio.runtime]\ndefault_runtime = \"crun\"\n[crio.runtime.runtimes.crun]\nruntime_path = \"/usr/bin/crun\"\nruntime_root = \"/run/crun\"\n",
		"a table of its default": "[crio.runtime.runtimes.crun]\nruntime_path = \"/opt/crun\"\n",
		"a runtime beside":       "[crio.runtime.runtimes.runc]\nruntime_path = \"/usr/sbin/runc\"\n",
	} {
		t.Run("crio/"+name, func(t *testing.T) {
			if !exists(crio) {
				t.Skip("this machine has no crio")
			}
			r := newReal(t, CRIO, crio)
			r.put("config", text)
			k := r.keeper()
			dump, err := k.host.run(context.Background(), crio, "crio", "--config", filepath.Join(r.dir, "config"), "--config-dir", filepath.Join(r.dir, "conf.d"), "config")
			assert.NilError(t, err)
			// It comments settings that have their defaults out, and has examples with spaces.
			dump = regexp.MustCompile(`(?m)^# (default_runtime = |\[crio\]|\[crio\.runtime\])`).ReplaceAllString(dump, "$1")
			got, err := k.LowLevel(context.Background())
			assert.NilError(t, err)
			assert.Equal(t, got, defaultOf(t, dump, []string{"crio", "runtime"}))
		})
	}
}

func TestRealContainerdRejectsWhatAnotherFileOverrides(t *testing.T) {
	for v, program := range containerds(t) {
		t.Run(v, func(t *testing.T) {
			r := newReal(t, Containerd, program)
			r.put("config", "version = 2\nimports = ['DIR/conf.d/99-nvidia*.toml', 'DIR/z.toml']\n")
			r.put("z.toml", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = 'kata'\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.kata]\nruntime_type = 'io.containerd.kata.v2'\n")
			before := r.get("config")
			_, err := r.keeper().Apply(context.Background())
			if !parseVersion(v + ".0").atLeast(mergesTables()) {
				assert.NilError(t, err) // z.toml is the file that counts: it is edited
				assert.Assert(t, strings.Contains(r.get("z.toml"), `default_runtime_name = "nvidia" # nvidia-container-toolkit: was 'kata'`))
				return
			}
			assert.ErrorContains(t, err, "containerd would use kata as the default runtime, not nvidia: another file that it imports sets it")
			assert.Equal(t, r.get("config"), before)
			for _, gone := range []string{"conf.d", "records"} {
				assert.Assert(t, !exists(filepath.Join(r.dir, gone)), "%s stays", gone)
			}
		})
	}
}

func TestRealContainerdRejectsItsConfigBefore(t *testing.T) {
	for v, program := range containerds(t) {
		t.Run(v, func(t *testing.T) {
			r := newReal(t, Containerd, program)
			r.put("config", "version = 2\noom_score = 'x'\n")
			_, err := r.keeper().Apply(context.Background())
			assert.ErrorContains(t, err, "containerd rejects its present config, correct the config first")
			assert.Equal(t, r.get("config"), "version = 2\noom_score = 'x'\n")
		})
	}
}
