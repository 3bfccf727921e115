// Package field has the table of DCGM's fields: their numbers, their names in each version, and
// the fields that share a value in another unit.
package field

import (
	_ "embed"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"outrigger.dev/pkg/gpu/nvml/telemetry"
)

// ID is the number of a field (dcgm_fields.h).
type ID = telemetry.Field

// Field is a field of DCGM.
type Field struct {
	ID ID
	// Name is the name in DCGM 4.6. Earlier has the names in earlier versions, the newest first.
	// All names stand for the same value in the same unit.
	Name    string
	Earlier []string
	// Text is set if the value is text.
	Text bool
	// Instance is set if each GPU instance has a separate value.
	Instance bool
	// ValueFrom is the field that provides the value, which is multiplied by Scale. DCGM has
	// fields for the value of another field in a base unit. For all other fields, ValueFrom is
	// ID and Scale is 1.
	ValueFrom ID
	Scale     float64
}

// Legacy returns the name that dashboards for DCGM before 4.6 use.
func (f Field) Legacy() string {
	for _, name := range f.Earlier {
		if strings.HasPrefix(name, "DCGM_") {
			return name
		}
	}
	return f.Name
}

// "go generate" also writes the names of the fields in code from this table.
//
//go:generate go test -run TestNamesInCode -update .
//go:embed fields.tsv
var table string

// base describes a value in a base unit: the value of another field, multiplied by scale.
type base struct {
	field ID
	scale float64
}

// bases returns the fields that have the value of another field in a base unit.
func bases() map[ID]base {
	return map[ID]base{
		telemetry.DCGM_FI_DEV_BAR1_CAPACITY_BYTES:     {telemetry.DCGM_FI_DEV_BAR1_TOTAL, 1 << 20},
		telemetry.DCGM_FI_DEV_BAR1_USED_BYTES:         {telemetry.DCGM_FI_DEV_BAR1_USED, 1 << 20},
		telemetry.DCGM_FI_DEV_BAR1_FREE_BYTES:         {telemetry.DCGM_FI_DEV_BAR1_FREE, 1 << 20},
		telemetry.DCGM_FI_DEV_SM_CLOCK_HERTZ:          {telemetry.DCGM_FI_DEV_SM_CLOCK, hertz},
		telemetry.DCGM_FI_DEV_MEMORY_CLOCK_HERTZ:      {telemetry.DCGM_FI_DEV_MEM_CLOCK, hertz},
		telemetry.DCGM_FI_DEV_VIDEO_CLOCK_HERTZ:       {telemetry.DCGM_FI_DEV_VIDEO_CLOCK, hertz},
		telemetry.DCGM_FI_DEV_SM_APP_CLOCK_HERTZ:      {telemetry.DCGM_FI_DEV_APP_SM_CLOCK, hertz},
		telemetry.DCGM_FI_DEV_MEMORY_APP_CLOCK_HERTZ:  {telemetry.DCGM_FI_DEV_APP_MEM_CLOCK, hertz},
		telemetry.DCGM_FI_DEV_SM_MAX_CLOCK_HERTZ:      {telemetry.DCGM_FI_DEV_MAX_SM_CLOCK, hertz},
		telemetry.DCGM_FI_DEV_MEMORY_MAX_CLOCK_HERTZ:  {telemetry.DCGM_FI_DEV_MAX_MEM_CLOCK, hertz},
		telemetry.DCGM_FI_DEV_VIDEO_MAX_CLOCK_HERTZ:   {telemetry.DCGM_FI_DEV_MAX_VIDEO_CLOCK, hertz},
		telemetry.DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL: {telemetry.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, joules},
		telemetry.DCGM_FI_DEV_FAN_SPEED_RATIO:         {telemetry.DCGM_FI_DEV_FAN_SPEED, ratio},
	}
}

// fields returns all fields, keyed by each of their names.
var fields = sync.OnceValue(func() map[string]Field {
	out, inBase := map[string]Field{}, bases()
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		id, err := strconv.ParseUint(cells[0], 10, 16)
		if err != nil {
			continue // a comment, or the header
		}
		f := Field{
			ID: ID(id), Name: cells[1], Text: cells[3] == "string", ValueFrom: ID(id), Scale: 1,
			Instance: strings.HasPrefix(cells[4], "GPU_"),
		}
		if cells[2] != "" {
			f.Earlier = strings.Split(cells[2], ",")
		}
		if base, ok := inBase[f.ID]; ok {
			f.ValueFrom, f.Scale = base.field, base.scale
		}
		for _, name := range append([]string{f.Name}, f.Earlier...) {
			out[name] = f
		}
	}
	return out
})

// ByName returns the field with a name, which may be a name from any version of DCGM.
func ByName(name string) (Field, bool) {
	f, ok := fields()[name]
	return f, ok
}

// All returns all fields, ordered by number.
func All() iter.Seq[Field] {
	byID := map[ID]Field{}
	for _, f := range fields() {
		byID[f.ID] = f
	}
	ids := make([]ID, 0, len(byID))
	for id := range byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return func(yield func(Field) bool) {
		for _, id := range ids {
			if !yield(byID[id]) {
				return
			}
		}
	}
}

// The factors that convert MHz, mJ and percent to base units.
const (
	hertz  = 1e6
	joules = 1e-3
	ratio  = 1e-2
)

// Renamed returns the name of a field in DCGM 4.7, and the factor of its value there. DCGM 4.7
// serves the metrics of the default list in base units. Its names are known only for fields from
// 1600 on, and for fields that 4.6 renamed. Other fields keep name and unit.
func Renamed(f Field) (name string, scale float64) {
	switch f.ID {
	case telemetry.DCGM_FI_DEV_SM_CLOCK:
		return "DCGM_FI_DEV_SM_CLOCK_HERTZ", hertz
	case telemetry.DCGM_FI_DEV_MEM_CLOCK:
		return "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", hertz
	case telemetry.DCGM_FI_DEV_VIDEO_CLOCK:
		return "DCGM_FI_DEV_VIDEO_CLOCK_HERTZ", hertz
	case telemetry.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
		return "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", joules
	case telemetry.DCGM_FI_DEV_FAN_SPEED:
		return "DCGM_FI_DEV_FAN_SPEED_RATIO", ratio
	case telemetry.DCGM_FI_DEV_GPU_UTIL_RATIO:
		return f.Name, ratio
	default:
		return f.Name, 1
	}
}
