package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/model"
)

func TestAModelHasTheValuesOfItsBase(t *testing.T) {
	base, err := model.Builtin("h100-80")
	assert.NilError(t, err)
	m, err := model.ParseOwn("h100-144", []byte(`{"base": "h100", "product": "NVIDIA H100 144GB", "memoryMiB": {"total": 147456}, "powerW": {"max": 800},
		"clocksMHz": {"max": {"sm": 2100}}, "firmware": {"vbios": "N/A"}, "mig": {"sliceSMs": 18}}`))
	assert.NilError(t, err)
	want := base
	want.Name, want.Aliases, want.Product, want.Memory, want.Power.Max, want.Max.SM, want.Firmware.VBIOS = "h100-144", nil, "NVIDIA H100 144GB", 147456, 800, 2100, ""
	mig := *base.MIG
	mig.SliceSMs = 18
	want.MIG, want.Sources = &mig, map[string]string{} // the sources of the base say nothing about this model
	assert.DeepEqual(t, m, want)
	m, err = model.ParseOwn("whole", []byte(`{"base": "h100-80", "memoryMiB": {"total": 2048}, "mig": "N/A"}`))
	assert.NilError(t, err)
	assert.Assert(t, m.MIG == nil)
}

func TestAFileCanHaveABase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my.yaml")
	assert.NilError(t, os.WriteFile(file, []byte("name: my-gpu\nbase: l4\nmemoryMiB: {total: 1024}\n"), 0o600))
	m, err := model.Find(file)
	assert.NilError(t, err)
	assert.Equal(t, m.Name+" "+m.Product, "my-gpu NVIDIA L4")
	assert.Equal(t, m.Memory, 1024)
}

func TestParseOwnNamesAllMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		data string
		want []string
	}{
		"my-gpu": {
			`{"memoryMiB": {"total": "much"}, "mig": {"computeSlices": 9}, "name": "other"}`,
			[]string{
				"models.my-gpu.product: is missing", "models.my-gpu.computeCapability: is missing", "models.my-gpu.memoryMiB.total: invalid value", "models.my-gpu.name: unknown key",
				"models.my-gpu.mig.computeSlices: invalid value", "models.my-gpu.mig.memorySlices: is missing", "models.my-gpu.mig.profiles: is missing",
			},
		},
		"My_GPU":                            {`{"base": "h100-80"}`, []string{"models.My_GPU: invalid name: must be lower-case letters"}},
		"a-model-with-a-name-of-32-letters": {`{"base": "l4"}`, []string{"models.a-model-with-a-name-of-32-letters: invalid name"}},
		"b":                                 {`{"base": "h900", "computeCapability": 9}`, []string{`models.b.base: invalid value "h900": must be one of a10, `, "models.b.computeCapability: invalid value"}},
		"c": {`{"base": "a30", "memoryMiB": {"total": 8192}}`, []string{
			"models.c: base a30:", "mig.profiles[3]: memoryMiB 11968 is more than the memory of the GPU, 8192 MiB: reduce it, or write mig: N/A",
		}},
		"d": {`[1]`, []string{"models.d:1: invalid value (a list): must be a mapping"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := model.ParseOwn(name, []byte(tc.data))
			for _, want := range tc.want {
				assert.ErrorContains(t, err, want)
			}
			if lines := strings.Split(err.Error(), "\n"); name != "c" && name != "d" && len(lines) != len(tc.want) {
				t.Errorf("got %d errors, want %d:\n%v", len(lines), len(tc.want), err)
			}
		})
	}
}
