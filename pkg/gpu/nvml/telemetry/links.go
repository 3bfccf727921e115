package telemetry

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// linkErrorKind is a kind of error that is counted for each NVLink. DCGM's fields of the links 0 to
// 5, 6 to 11, 12 to 14 and 15 to 17 have consecutive numbers. NVML has field values of the first
// twelve links.
type linkErrorKind struct {
	counter                                    gonvml.NvLinkErrorCounter
	links0, links6, links12, links15           Field
	valuesOfLinks0, valuesOfLinks6, valueOfAll uint32
	ofAll                                      Field
}

func lanes() []linkErrorKind {
	return []linkErrorKind{
		{
			counter:        gonvml.NVLINK_ERROR_DL_CRC_FLIT,
			links0:         DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L0_TOTAL,
			links6:         DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L6_TOTAL,
			links12:        DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L12_TOTAL,
			links15:        DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_L15_TOTAL,
			valuesOfLinks0: gonvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L0,
			valuesOfLinks6: gonvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_L6,
			valueOfAll:     gonvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
			ofAll:          DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL,
		},
		{
			counter:        gonvml.NVLINK_ERROR_DL_CRC_DATA,
			links0:         DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L0_TOTAL,
			links6:         DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L6_TOTAL,
			links12:        DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L12_TOTAL,
			links15:        DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_L15_TOTAL,
			valuesOfLinks0: gonvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0,
			valuesOfLinks6: gonvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6,
			valueOfAll:     gonvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
			ofAll:          DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL,
		},
		{
			counter:        gonvml.NVLINK_ERROR_DL_REPLAY,
			links0:         DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L0_TOTAL,
			links6:         DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L6_TOTAL,
			links12:        DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L12_TOTAL,
			links15:        DCGM_FI_DEV_NVLINK_REPLAY_ERROR_L15_TOTAL,
			valuesOfLinks0: gonvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0,
			valuesOfLinks6: gonvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6,
			valueOfAll:     gonvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
			ofAll:          DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL,
		},
		{
			counter:        gonvml.NVLINK_ERROR_DL_RECOVERY,
			links0:         DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L0_TOTAL,
			links6:         DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L6_TOTAL,
			links12:        DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L12_TOTAL,
			links15:        DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_L15_TOTAL,
			valuesOfLinks0: gonvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0,
			valuesOfLinks6: gonvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6,
			valueOfAll:     gonvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
			ofAll:          DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL,
		},
	}
}

// linkValues returns the field values of NVLinks: their errors, and the counters of NVLink 5.
func linkValues() []fieldSource {
	var out []fieldSource
	for _, l := range lanes() {
		out = append(out, fieldSource{field: l.ofAll, id: l.valueOfAll, scope: allLinks, scale: 1})
		for i := range uint32(6) {
			out = append(out, fieldSource{field: l.links0 + Field(i), id: l.valuesOfLinks0 + i, scale: 1}, //nolint:gosec // below 6
				fieldSource{field: l.links6 + Field(i), id: l.valuesOfLinks6 + i, scale: 1}) //nolint:gosec // below 6
		}
	}
	for f, id := range map[Field]uint32{
		DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL:           gonvml.FI_DEV_NVLINK_ERROR_DL_CRC,
		DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL:            gonvml.FI_DEV_NVLINK_ERROR_DL_RECOVERY,
		DCGM_FI_DEV_NVLINK_REPLAY_TOTAL:              gonvml.FI_DEV_NVLINK_ERROR_DL_REPLAY,
		DCGM_FI_DEV_NVLINK_TX_PACKET_TOTAL:           gonvml.FI_DEV_NVLINK_COUNT_XMIT_PACKETS,
		DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL:            gonvml.FI_DEV_NVLINK_COUNT_XMIT_BYTES,
		DCGM_FI_DEV_NVLINK_RX_PACKET_TOTAL:           gonvml.FI_DEV_NVLINK_COUNT_RCV_PACKETS,
		DCGM_FI_DEV_NVLINK_RX_BYTES_TOTAL:            gonvml.FI_DEV_NVLINK_COUNT_RCV_BYTES,
		DCGM_FI_DEV_NVLINK_RX_PACKET_MALFORMED_TOTAL: gonvml.FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS,
		DCGM_FI_DEV_NVLINK_RX_PACKET_DROPPED_TOTAL:   gonvml.FI_DEV_NVLINK_COUNT_BUFFER_OVERRUN_ERRORS,
		DCGM_FI_DEV_NVLINK_RX_ERROR_TOTAL:            gonvml.FI_DEV_NVLINK_COUNT_RCV_ERRORS,
		DCGM_FI_DEV_NVLINK_RX_REMOTE_ERROR_TOTAL:     gonvml.FI_DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS,
		DCGM_FI_DEV_NVLINK_RX_GENERAL_ERROR_TOTAL:    gonvml.FI_DEV_NVLINK_COUNT_RCV_GENERAL_ERRORS,
		DCGM_FI_DEV_NVLINK_INTEGRITY_ERROR_TOTAL:     gonvml.FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS,
		DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS:         gonvml.FI_DEV_NVLINK_COUNT_XMIT_DISCARDS,
		DCGM_FI_DEV_NVLINK_RECOVERY_SUCCESSFUL_TOTAL: gonvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS,
		DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL:     gonvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS,
		DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL:      gonvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS,
		DCGM_FI_DEV_NVLINK_RX_SYMBOL_ERROR_TOTAL:     gonvml.FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS,
		DCGM_FI_DEV_NVLINK_EFFECTIVE_ERROR_TOTAL:     gonvml.FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS,
		DCGM_FI_DEV_NVLINK_ECC_ERROR_TOTAL:           gonvml.FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL,
	} {
		out = append(out, fieldSource{field: f, id: id, scope: allLinks, scale: 1})
	}
	return out
}

// linkErrors returns the getters of errors of links without field values.
func linkErrors() []getter {
	var out []getter
	for _, l := range lanes() {
		for i := range 3 {
			out = append(out, linkError(l.links12+Field(i), 12+i, l.counter), linkError(l.links15+Field(i), 15+i, l.counter)) //nolint:gosec // below 3
		}
	}
	return out
}

// linkError returns the getter of the errors of one link. A GPU without the link does not support
// it.
func linkError(f Field, link int, counter gonvml.NvLinkErrorCounter) getter {
	return oneValue("nvmlDeviceGetNvLinkErrorCounter", f, 1, func(d gonvml.Device) (uint64, gonvml.Return) {
		count, ret := d.GetNvLinkErrorCounter(link, counter)
		if ret == gonvml.ERROR_INVALID_ARGUMENT {
			ret = gonvml.ERROR_NOT_SUPPORTED
		}
		return count, ret
	})
}
