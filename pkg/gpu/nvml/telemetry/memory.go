package telemetry

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu/nvml"
)

// memoryFields returns the fields that memory puts.
func memoryFields() []Field {
	return []Field{
		DCGM_FI_DEV_FB_TOTAL, DCGM_FI_DEV_FB_FREE, DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_FB_RESERVED, DCGM_FI_DEV_FB_USED_RATIO,
		DCGM_FI_DEV_FB_CAPACITY_BYTES, DCGM_FI_DEV_FB_FREE_BYTES, DCGM_FI_DEV_FB_USED_BYTES, DCGM_FI_DEV_FB_RESERVED_BYTES,
	}
}

const symMemory = "nvmlDeviceGetMemoryInfo_v2"

// memory reads the memory of a GPU or MIG device, in MiB and in bytes. Drivers before 510 count reserved memory
// as used, and do not report its size.
func memory(d nvml.Device, put func(Field, float64)) error {
	size := func(inMiB, inBytes Field, bytes uint64) {
		put(inMiB, float64(bytes/mebibyte))
		put(inBytes, float64(bytes))
	}
	m, err := d.MemoryInfoV2()
	if nvml.Missing(err) {
		var old gonvml.Memory
		old, err = d.MemoryInfo()
		m.Total, m.Free, m.Used = old.Total, old.Free, old.Used
	} else if err == nil {
		size(DCGM_FI_DEV_FB_RESERVED, DCGM_FI_DEV_FB_RESERVED_BYTES, m.Reserved)
	}
	if err != nil {
		return err
	}
	size(DCGM_FI_DEV_FB_TOTAL, DCGM_FI_DEV_FB_CAPACITY_BYTES, m.Total)
	size(DCGM_FI_DEV_FB_FREE, DCGM_FI_DEV_FB_FREE_BYTES, m.Free)
	size(DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_FB_USED_BYTES, m.Used)
	if usable := m.Total - m.Reserved; usable > 0 && m.Reserved <= m.Total {
		put(DCGM_FI_DEV_FB_USED_RATIO, float64(m.Used)/float64(usable))
	}
	return nil
}
