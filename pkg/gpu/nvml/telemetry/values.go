package telemetry

import (
	"encoding/binary"
	"math"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu/nvml"
)

// fieldValues reads all values by number with one call.
func (r *reading) fieldValues() error {
	s := r.sampler
	var asked []fieldSource
	var values []gonvml.FieldValue
	for _, n := range s.plan.values {
		if _, absent := s.absent[n.field]; !absent {
			asked = append(asked, n)
			values = append(values, gonvml.FieldValue{FieldId: n.id, ScopeId: n.scope})
		}
	}
	if len(values) == 0 {
		return nil
	}
	fields := make([]Field, len(asked))
	for i, n := range asked {
		fields[i] = n.field
	}
	if err := s.device.FieldValues(values); err != nil {
		return r.checkCall(err, symFieldValues, fields...)
	}
	got := map[Field]bool{}
	refused := map[Field]gonvml.Return{}
	for i, v := range values {
		n := asked[i]
		if ret := gonvml.Return(v.NvmlReturn); ret != gonvml.SUCCESS {
			if ret == gonvml.ERROR_INVALID_ARGUMENT && n.field >= linkBytes {
				ret = gonvml.ERROR_NOT_SUPPORTED // the GPU does not have this link
			}
			refused[n.field] = ret
			continue
		}
		value, ok := decode(v)
		if got[n.field] || !ok {
			continue
		}
		got[n.field] = true
		if n.counts {
			value = s.counter(n.field).add(value, width(v.ValueType))
		}
		if s.wanted[n.field] || n.counts {
			r.sample.GPU.put(n.field, value*n.scale)
		}
	}
	for f, ret := range refused {
		if got[f] {
			continue
		}
		if err := r.checkCall(&nvml.Error{Symbol: symFieldValues, Return: ret}, symFieldValues, f); err != nil {
			return err
		}
	}
	r.linkRates(refused)
	return nil
}

// decode returns the value of a field value, and false for an unknown type.
func decode(v gonvml.FieldValue) (float64, bool) {
	word := binary.NativeEndian.Uint64(v.Value[:])
	half := binary.NativeEndian.Uint32(v.Value[:])
	switch gonvml.ValueType(v.ValueType) {
	case gonvml.VALUE_TYPE_DOUBLE:
		return math.Float64frombits(word), true
	case gonvml.VALUE_TYPE_UNSIGNED_INT:
		return float64(half), true
	case gonvml.VALUE_TYPE_UNSIGNED_LONG, gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return float64(word), true
	case gonvml.VALUE_TYPE_SIGNED_LONG_LONG:
		return float64(int64(word)), true //nolint:gosec // the type says so
	case gonvml.VALUE_TYPE_SIGNED_INT:
		return float64(int32(half)), true //nolint:gosec // the type says so
	case gonvml.VALUE_TYPE_UNSIGNED_SHORT:
		return float64(binary.NativeEndian.Uint16(v.Value[:])), true
	default:
		return 0, false
	}
}

// width returns the number of values of a counter with this type. It is 0 if a wrap of the counter
// cannot be detected.
func width(valueType uint32) float64 {
	if gonvml.ValueType(valueType) == gonvml.VALUE_TYPE_UNSIGNED_INT {
		return 1 << 32
	}
	return 0
}
