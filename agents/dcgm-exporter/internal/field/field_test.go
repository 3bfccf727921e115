package field_test

import (
	"fmt"
	"go/format"
	"testing"

	"gotest.tools/v3/golden"

	"outrigger.dev/agents/dcgm-exporter/internal/field"
)

// TestNamesInCode writes the constants of package telemetry with -update.
func TestNamesInCode(t *testing.T) {
	code := "// Code generated from the fields of package field by \"go generate\". DO NOT EDIT.\n\npackage telemetry\n\n" +
		"// The fields of DCGM, by their names in DCGM 4.6.\nconst (\n"
	for f := range field.All() {
		code += fmt.Sprintf("%s Field = %d\n", f.Name, f.ID)
	}
	want, err := format.Source([]byte(code + ")\n"))
	if err != nil {
		t.Fatal(err)
	}
	// A golden file is below testdata.
	golden.Assert(t, string(want), "../../../../../pkg/gpu/nvml/telemetry/fields_generated.go")
}

func TestNamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		id, of field.ID
		scale  float64
		legacy string
	}{
		{"DCGM_FI_DEV_GPU_TEMP", 150, 150, 1, "DCGM_FI_DEV_GPU_TEMP"},
		{"DCGM_FI_DEV_GPU_TEMP_CELSIUS", 150, 150, 1, "DCGM_FI_DEV_GPU_TEMP"},
		{"dcgm_gpu_temp", 150, 150, 1, "DCGM_FI_DEV_GPU_TEMP"},
		{"DCGM_FI_DEV_SM_CLOCK", 100, 100, 1, "DCGM_FI_DEV_SM_CLOCK"},
		{"DCGM_FI_DEV_SM_CLOCK_HERTZ", 1603, 100, 1e6, "DCGM_FI_DEV_SM_CLOCK_HERTZ"},
		{"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1611, 156, 1e-3, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL"},
	} {
		f, ok := field.ByName(c.name)
		if !ok || f.ID != c.id || f.ValueFrom != c.of || f.Scale != c.scale || f.Legacy() != c.legacy {
			t.Errorf("%s: %t %+v, want %+v", c.name, ok, f, c)
		}
	}
	if f, ok := field.ByName("DCGM_FI_DEV_NOTHING"); ok {
		t.Errorf("%+v", f)
	}
}

// Each name stands for one field, and each field that DCGM 4.7 renames has a name of its own there.
func TestNamesAreUnique(t *testing.T) {
	names, renamed := map[string]field.ID{}, map[string]field.ID{}
	fields := 0
	for f := range field.All() {
		fields++
		for _, name := range append([]string{f.Name}, f.Earlier...) {
			if other, twice := names[name]; twice {
				t.Errorf("%s is the name of %d and %d", name, other, f.ID)
			}
			names[name] = f.ID
		}
		if f.ValueFrom != f.ID {
			continue
		}
		name, scale := field.Renamed(f)
		if other, twice := renamed[name]; twice || scale <= 0 {
			t.Errorf("%s is the new name of %d and %d, times %g", name, other, f.ID, scale)
		}
		renamed[name] = f.ID
		if base, ok := field.ByName(name); !ok || base.ValueFrom != f.ID {
			t.Errorf("%s, the new name of %s, is not a name of its value", name, f.Name)
		}
	}
	if fields < 600 {
		t.Errorf("%d fields", fields)
	}
}
