// Package field has the table of DCGM's fields: their numbers, their names in each version, and
// the fields that share a value in another unit.
package field

import (
	_ "embed"
	"iter"
	"regexp"
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
	// Name is the name in DCGM 4.7. Earlier has the names in earlier versions, the newest first.
	// All names stand for the same value in the same unit.
	Name    string
	Earlier []string
	// Text is set if the value is text.
	Text bool
	// Instance is set if each GPU instance has a separate value.
	Instance bool
	// Link is set if the value is about the links of the GPU: PCIe, NVLink or NVLink-C2C. The GPU
	// instances of a GPU share its links.
	Link bool
	// LegacyField is the field with the same value in the unit of earlier versions, or 0 if there
	// is none.
	LegacyField ID
	// ValueFrom is the field that provides the value, which is multiplied by Scale: the field
	// itself with the scale 1, or LegacyField if only LegacyField has a source.
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

// link matches the names of fields about the links of a GPU.
var link = regexp.MustCompile(`_(PCIE|NVLINK|C2C)_`)

// fields returns all fields, keyed by each of their names.
var fields = sync.OnceValue(func() map[string]Field {
	out := map[string]Field{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		id, err := strconv.ParseUint(cells[0], 10, 16)
		if err != nil {
			continue // a comment, or the header
		}
		f := Field{
			ID: ID(id), Name: cells[1], Text: cells[3] == "string", ValueFrom: ID(id), Scale: 1,
			Instance: strings.HasPrefix(cells[4], "GPU_"), Link: link.MatchString(cells[1]),
		}
		if cells[2] != "" {
			f.Earlier = strings.Split(cells[2], ",")
		}
		if len(cells) > 5 {
			f.inBaseUnit(cells[5], cells[6])
		}
		for _, name := range append([]string{f.Name}, f.Earlier...) {
			out[name] = f
		}
	}
	return out
})

// inBaseUnit sets the fields of f from the columns legacy and factor, which a test checks.
func (f *Field) inBaseUnit(legacy, factor string) {
	id, _ := strconv.ParseUint(legacy, 10, 16)
	f.LegacyField = ID(id)
	if factor != "" {
		f.ValueFrom = f.LegacyField
		f.Scale, _ = strconv.ParseFloat(factor, 64)
	}
}

// renewed returns the fields in base units, keyed by their legacy fields.
var renewed = sync.OnceValue(func() map[ID]Field {
	out := map[ID]Field{}
	for _, f := range fields() {
		if f.LegacyField != 0 {
			out[f.LegacyField] = f
		}
	}
	return out
})

// Renewed returns the field with the value of f in DCGM 4.7: the field in a base unit if there is
// one, otherwise f.
func Renewed(f Field) Field {
	if base, ok := renewed()[f.ID]; ok {
		return base
	}
	return f
}

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
