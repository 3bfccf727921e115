package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"gotest.tools/v3/assert"
)

// input returns a config file that people use.
func input(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/inputs", name))
	assert.NilError(t, err)
	return string(data)
}

// spelledConfigs are config files that spell settings in another way than their documentation,
// and still have the same meaning.
func spelledConfigs(t *testing.T) map[string]string {
	t.Helper()
	const upper = "VERSION = 3\n[PLUGINS.'io.containerd.cri.v1.runtime'.CONTAINERD.RUNTIMES.runc]\nRUNTIME_TYPE = 'io.containerd.runc.v2'\n" +
		"[PLUGINS.'io.containerd.cri.v1.runtime'.CONTAINERD.RUNTIMES.runc.OPTIONS]\nSYSTEMDCGROUP = true\nBINARYNAME = '/usr/local/bin/runc'\n"
	const nvidia = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nsystemdCgroup = true\n" +
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]\nruntime_type = 'io.containerd.runc.v2'\n" +
		"[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\nbinaryName = '/usr/bin/nvidia-container-runtime'\nsystemdCgroup = true\n"
	return map[string]string{
		"Kubespray's, with lower-case options":   input(t, "kubespray-lower-case-v3.toml"),
		"all settings in upper case":             upper,
		"a runtime nvidia with lower case":       nvidia,
		"a runtime nvidia with both spellings":   nvidia + "BinaryName = '/usr/bin/nvidia-container-runtime'\n",
		"a runtime whose name differs by case":   "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.NVIDIA.options]\nBinaryName = '/x'\nSystemdCgroup = true\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nsystemdcgroup = true\n",
		"version 2 of Kubespray, and lower case": strings.ReplaceAll(strings.ReplaceAll(input(t, "kubespray-lower-case-v3.toml"), "version = 3", "version = 2"), "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"),
	}
}

// TestContainerdComparesKeysWithoutCase reads each result as containerd does, and expects one value
// for each setting: the program of the runtime, and the cgroup driver that it inherits.
func TestContainerdComparesKeysWithoutCase(t *testing.T) {
	for name, text := range spelledConfigs(t) {
		for _, v := range []version{{1, 7}, {2, 4}} {
			t.Run(v.String()+"/"+name, func(t *testing.T) {
				n := newNode(t)
				n.version = v
				n.put(containerdConfig, text)
				before := n.snapshot()
				c := n.config(Containerd)
				n.apply(c)
				var main, dropIn map[string]any
				assert.NilError(t, toml.Unmarshal([]byte(n.get(containerdConfig)), &main))
				if v == (version{2, 4}) {
					assert.NilError(t, toml.Unmarshal([]byte(n.get(containerdDropIn)), &dropIn))
				}
				doc := merge(main, dropIn)
				for _, r := range c.Desired().Runtimes {
					table := tableAt(doc, append(schemaOf(doc).cri, "containerd", "runtimes", r.Name))
					options := tableAt(table, []string{"options"})
					got := map[string]any{}
					for k, v := range options {
						if before, twice := got[strings.ToLower(k)]; twice {
							assert.Equal(t, v, before, "two values of %s", k)
						}
						got[strings.ToLower(k)] = v
					}
					want := map[string]any{"binaryname": r.Path, "systemdcgroup": true}
					assert.Equal(t, cmp.Diff(want, got), "", r.Name)
				}
				_, err := n.keeper(c).Plan(context.Background())
				assert.NilError(t, err)
				assert.Assert(t, n.apply(c).Empty())
				n.undo(c)
				assert.Equal(t, cmp.Diff(before, n.snapshot()), "")
			})
		}
	}
}

// TestCRIOComparesKeysWithoutCase does the same for CRI-O.
func TestCRIOComparesKeysWithoutCase(t *testing.T) {
	n := newNode(t)
	n.put(crioConfig, "[crio.runtime]\nDefault_Runtime = 'crun'\n[crio.runtime.Runtimes.crun]\nRuntime_Path = '/usr/bin/crun'\nRuntime_Root = '/run/crun'\n")
	before := n.snapshot()
	n.apply(n.config(CRIO))
	var doc struct {
		CRIO struct {
			Runtime struct {
				Runtimes map[string]map[string]any
			}
		}
	}
	assert.NilError(t, toml.Unmarshal([]byte(n.get(crioDropIn)), &doc))
	assert.Equal(t, cmp.Diff(map[string]any{
		"Runtime_Path": "/usr/local/nvidia/toolkit/nvidia-container-runtime", "Runtime_Root": "/run/crun", "runtime_type": "oci",
	}, doc.CRIO.Runtime.Runtimes["nvidia"]), "")
	n.undo(n.config(CRIO))
	assert.Equal(t, n.snapshot(), before)
}
