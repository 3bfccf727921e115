package field_test

import (
	"fmt"
	"go/format"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/dcgm-exporter/internal/field"
)

// TestNamesInCode writes the constants of package telemetry with -update.
func TestNamesInCode(t *testing.T) {
	code := "// Code generated from the fields of package field by \"go generate\". DO NOT EDIT.\n\npackage telemetry\n\n" +
		"// The fields of DCGM, by their names in DCGM 4.7.\nconst (\n"
	for f := range field.All() {
		code += fmt.Sprintf("%s Field = %d\n", f.Name, f.ID)
	}
	want, err := format.Source([]byte(code + ")\n"))
	assert.NilError(t, err)
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
		{"DCGM_FI_DEV_GPU_UTIL", 203, 203, 1, "DCGM_FI_DEV_GPU_UTIL"},
		{"DCGM_FI_DEV_GPU_UTIL_RATIO", 1613, 203, 1e-2, "DCGM_FI_DEV_GPU_UTIL_RATIO"},
		{"DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL", 1617, 240, 1e-9, "DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL"},
		{"DCGM_FI_DEV_FB_USED_BYTES", 1627, 1627, 1, "DCGM_FI_DEV_FB_USED_BYTES"},
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

// Each name stands for one field, and each field in a base unit has a legacy field of the same kind.
func TestNamesAreUnique(t *testing.T) {
	names, byID, renewed := map[string]field.ID{}, map[field.ID]field.Field{}, map[field.ID]field.ID{}
	for f := range field.All() {
		byID[f.ID] = f
		for _, name := range append([]string{f.Name}, f.Earlier...) {
			if other, twice := names[name]; twice {
				t.Errorf("%s is the name of %d and %d", name, other, f.ID)
			}
			names[name] = f.ID
		}
	}
	if len(byID) < 600 {
		t.Errorf("%d fields", len(byID))
	}
	for id, f := range byID {
		if (id >= 1600) != (f.LegacyField != 0) || f.Scale <= 0 {
			t.Errorf("%s: legacy field %d, scale %g", f.Name, f.LegacyField, f.Scale)
		}
		if f.LegacyField == 0 {
			continue
		}
		if other, twice := renewed[f.LegacyField]; twice {
			t.Errorf("%d and %d hold the value of %d", other, f.ID, f.LegacyField)
		}
		renewed[f.LegacyField] = f.ID
		legacy, ok := byID[f.LegacyField]
		if !ok || legacy.Instance != f.Instance || field.Renewed(legacy).ID != f.ID {
			t.Errorf("%s holds the value of %s, which becomes %s", f.Name, legacy.Name, field.Renewed(legacy).Name)
		}
	}
}

// The fields in base units are those of DCGM 4.7 (dcgm_fields.h, 1600 to 1649).
func TestFieldsInBaseUnits(t *testing.T) {
	for legacy, want := range map[string]string{
		"DCGM_FI_DEV_GPU_UTIL":               "DCGM_FI_DEV_GPU_UTIL_RATIO",
		"DCGM_FI_DEV_MEM_COPY_UTIL":          "DCGM_FI_DEV_MEMORY_UTIL_RATIO",
		"DCGM_FI_DEV_ENC_UTIL":               "DCGM_FI_DEV_ENC_UTIL_RATIO",
		"DCGM_FI_DEV_DEC_UTIL":               "DCGM_FI_DEV_DEC_UTIL_RATIO",
		"DCGM_FI_DEV_POWER_VIOLATION":        "DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL",
		"DCGM_FI_DEV_FB_TOTAL":               "DCGM_FI_DEV_FB_CAPACITY_BYTES",
		"DCGM_FI_DEV_FB_RESERVED":            "DCGM_FI_DEV_FB_RESERVED_BYTES",
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_L0":    "DCGM_FI_DEV_NVLINK_THROUGHPUT_L0_BYTES_PER_SECOND",
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_L6":    "DCGM_FI_DEV_NVLINK_THROUGHPUT_L6_BYTES_PER_SECOND",
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_L17":   "DCGM_FI_DEV_NVLINK_THROUGHPUT_L17_BYTES_PER_SECOND",
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND",
		"DCGM_FI_DEV_POWER_USAGE":            "DCGM_FI_DEV_BOARD_POWER_WATTS",
	} {
		f, ok := field.ByName(legacy)
		if got := field.Renewed(f).Name; !ok || got != want {
			t.Errorf("%s becomes %s, want %s", legacy, got, want)
		}
	}
}
