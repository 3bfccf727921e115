package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/model"
)

func TestBuiltinModels(t *testing.T) {
	called := map[string]string{}
	for _, name := range model.Names() {
		m, err := model.Builtin(name)
		assert.NilError(t, err)
		assert.Equal(t, m.Name, name, "the name in the file")
		for _, other := range append([]string{m.Name}, m.Aliases...) {
			if called[other] != "" {
				t.Errorf("%s and %s have the name %s", called[other], name, other)
			}
			called[other] = name
		}
	}
	assert.Equal(t, called["h100"], "h100-80")
}

func TestFind(t *testing.T) {
	for ref, want := range map[string]string{
		"h100": "h100-80", "H100": "h100-80", "a100": "a100-40", "T4": "t4", "tesla-t4": "t4", "Tesla-T4": "t4",
		"NVIDIA H100 80GB HBM3": "h100-80", "NVIDIA-A100-SXM4-80GB": "a100-80", "a100-sxm4-80gb": "a100-80", "gb200": "gb200",
		"NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition": "rtx-pro-6000",
	} {
		m, err := model.Find(ref)
		assert.NilError(t, err)
		assert.Equal(t, m.Name, want, ref)
	}
	for ref, want := range map[string]string{
		"h10": `model "h10" is unknown: want one of a10, `, "": `model "" is unknown`, "./missing.yaml": "read model: open ./missing.yaml: no such file",
	} {
		_, err := model.Find(ref)
		assert.ErrorContains(t, err, want)
	}
}

func TestFindReadsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my.yaml")
	assert.NilError(t, os.WriteFile(file, []byte("name: my-gpu\nproduct: NVIDIA My GPU\ncomputeCapability: \"8.9\"\nmemoryMiB: {total: 1024}\n"), 0o600))
	m, err := model.Find(file)
	assert.NilError(t, err)
	assert.Equal(t, m.Product, "NVIDIA My GPU")
	assert.Equal(t, m.Architecture, 8, "Ada Lovelace follows from 8.9")
	assert.Equal(t, m.Server.Name, "pcie")
	assert.Equal(t, m.PCI.ID, 0xffff10de)
	if m.MIG != nil {
		t.Error("the model can be divided")
	}
}

// All errors are reported at once, each with its line and its key.
func TestParseReportsAllErrors(t *testing.T) {
	const head = "name: x\nproduct: X\ncomputeCapability: \"8.0\"\nmemoryMiB: {total: 100}\n"
	for name, tc := range map[string]struct {
		data string
		want []string
	}{
		"an empty file": {"", []string{"f:1: name: is missing", "f:1: product: is missing", "f:1: computeCapability: is missing", "f:1: memoryMiB: is missing"}},
		"unknown values of required keys": {
			"name: N/A\nproduct: N/A\ncomputeCapability: N/A\nmemoryMiB: {total: N/A}\n",
			[]string{"f:1: name: invalid value", "f:2: product: invalid value", "f:3: computeCapability: invalid value", "f:4: memoryMiB.total: invalid value"},
		},
		"numbers that contradict each other": {
			head + "powerW: {min: 5, max: 3}\nmig: {computeSlices: 2, memorySlices: 2, profiles: [{name: 4g, number: 0, id: 0, slices: 4, size: 2, starts: [1], max: 1, memoryMiB: 200}]}\n",
			[]string{"f:5: powerW.min: invalid value", "f:6: mig.profiles[0]: slices 4 is more than computeSlices, 2", "f:6: mig.profiles[0]: an instance of 2 memory slices at 1 ends after", "f:6: mig.profiles[0]: memoryMiB 200 is more than"},
		},
		"words": {
			head + "brand: nvidia\narchitecture: Foo\nserver: bar\npci: {id: 2330}\nname2: y\n",
			[]string{"f:5: brand: ", "f:6: architecture: ", "f:7: server: ", `f:8: pci.id: invalid value "2330"`, "f:9: name2: unknown key: did you mean name?"},
		},
		"sources": {
			head + "sources:\n- {from: a, for: [powerW, colour]}\n- {from: b, for: [powerW]}\n- {}\n",
			[]string{"f:6: sources[0].for[1]: invalid value", "f:7: sources[1].for[0]: powerW has two sources", "f:8: sources[2].from: is missing", "f:8: sources[2].for: is missing"},
		},
		"texts that are too long": {head + "firmware: {vbios: " + strings.Repeat("x", 40) + "}\n", []string{"f:5: firmware.vbios: "}},
		"profiles with one number": {
			head + "mig: {computeSlices: 1, memorySlices: 1, profiles: [&p {name: 1g, number: 0, id: 0, slices: 1, size: 1, starts: [0], max: 1, memoryMiB: 1}, *p]}\n",
			[]string{"f:5: mig.profiles[1]: has the name, number or id of the profile 1g"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := model.Parse("f", []byte(tc.data))
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tc.want) {
				t.Errorf("got %d errors, want %d:\n%v", len(lines), len(tc.want), err)
			}
			for _, want := range tc.want {
				if !strings.Contains("\n"+err.Error(), "\n"+want) {
					t.Errorf("%q is missing in\n%v", want, err)
				}
			}
		})
	}
}

func TestSource(t *testing.T) {
	m, err := model.Parse("f", []byte("name: x\nproduct: X\ncomputeCapability: \"8.0\"\nmemoryMiB: {total: 100}\nsources: [{from: a, for: [memoryMiB, mig]}, {from: b, for: [mig.1g.5gb]}]\n"))
	assert.NilError(t, err)
	for key, want := range map[string]string{"memoryMiB.total": "a", "mig.1g.5gb": "b", "mig.1g.5gb+me": "a", "mig.sliceSMs": "a", "powerW.max": ""} {
		assert.Equal(t, m.Source(key), want, key)
	}
}
