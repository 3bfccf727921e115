package telemetry

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu/nvml"
)

// lane is a kind of error that is counted for each NVLink. DCGM's fields of the links 0 to 5, 6
// to 11, 12 to 14 and 15 to 17 have consecutive numbers; NVML has field values of the first twelve.
type lane struct {
	counter                                    gonvml.NvLinkErrorCounter
	links0, links6, links12, links15           Field
	valuesOfLinks0, valuesOfLinks6, valueOfAll uint32
	ofAll                                      Field
}

func lanes() []lane {
	return []lane{
		{
			gonvml.NVLINK_ERROR_DL_CRC_FLIT, 400, 451, 406, 481,
			gonvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0, gonvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6, gonvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 409,
		},
		{
			gonvml.NVLINK_ERROR_DL_CRC_DATA, 410, 457, 416, 484,
			gonvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0, gonvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6, gonvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, 419,
		},
		{
			gonvml.NVLINK_ERROR_DL_REPLAY, 420, 463, 426, 487,
			gonvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0, gonvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6, gonvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 429,
		},
		{
			gonvml.NVLINK_ERROR_DL_RECOVERY, 430, 469, 436, 491,
			gonvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0, gonvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6, gonvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, 439,
		},
	}
}

// linkValues are the field values of NVLinks: their errors, and what NVLink 5 counts.
func linkValues() []numbered {
	var out []numbered
	for _, l := range lanes() {
		out = append(out, numbered{field: l.ofAll, id: l.valueOfAll, scope: allLinks, scale: 1})
		for i := range uint32(6) {
			out = append(out, numbered{field: l.links0 + Field(i), id: l.valuesOfLinks0 + i, scale: 1}, //nolint:gosec // below 6
				numbered{field: l.links6 + Field(i), id: l.valuesOfLinks6 + i, scale: 1}) //nolint:gosec // below 6
		}
	}
	for f, id := range map[Field]uint32{
		497: gonvml.FI_DEV_NVLINK_ERROR_DL_CRC, 498: gonvml.FI_DEV_NVLINK_ERROR_DL_RECOVERY, 499: gonvml.FI_DEV_NVLINK_ERROR_DL_REPLAY,
		1200: gonvml.FI_DEV_NVLINK_COUNT_XMIT_PACKETS, 1201: gonvml.FI_DEV_NVLINK_COUNT_XMIT_BYTES,
		1202: gonvml.FI_DEV_NVLINK_COUNT_RCV_PACKETS, 1203: gonvml.FI_DEV_NVLINK_COUNT_RCV_BYTES,
		1204: gonvml.FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS, 1205: gonvml.FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS,
		1206: gonvml.FI_DEV_NVLINK_COUNT_RCV_ERRORS, 1207: gonvml.FI_DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS,
		1208: gonvml.FI_DEV_NVLINK_COUNT_RCV_GENERAL_ERRORS, 1209: gonvml.FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS,
		1210: gonvml.FI_DEV_NVLINK_COUNT_XMIT_DISCARDS, 1211: gonvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS,
		1212: gonvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS, 1213: gonvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS,
		1214: gonvml.FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS, 1219: gonvml.FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS,
		1220: gonvml.FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL,
	} {
		out = append(out, numbered{field: f, id: id, scope: allLinks, scale: 1})
	}
	return out
}

// linkErrors are the getters of the errors of links that have no field values.
func linkErrors() []getter {
	var out []getter
	for _, l := range lanes() {
		for i := range 3 {
			out = append(out, linkError(l.links12+Field(i), 12+i, l.counter), linkError(l.links15+Field(i), 15+i, l.counter)) //nolint:gosec // below 3
		}
	}
	return out
}

// linkError is the getter of the errors of one link. A GPU without the link does not support it.
func linkError(f Field, link int, counter gonvml.NvLinkErrorCounter) getter {
	const symbol = "nvmlDeviceGetNvLinkErrorCounter"
	return one(symbol, f, 1, func(d nvml.Device) (uint64, error) {
		count, err := d.NVLinkErrors(link, counter)
		if nvml.Code(err) == gonvml.ERROR_INVALID_ARGUMENT {
			err = &nvml.Error{Symbol: symbol, Return: gonvml.ERROR_NOT_SUPPORTED}
		}
		return count, err
	})
}
