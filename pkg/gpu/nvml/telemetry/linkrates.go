package telemetry

import (
	"math"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu/nvml"
)

// linkRate is the rate of an NVLink, or of all NVLinks of a GPU. It is derived from the counters of both
// directions.
type linkRate struct {
	tx, rx Field
	// scope is the number of the link in nvmlDeviceGetFieldValues.
	scope uint32
	// megabytes is the field in MB/s: as in DCGM, a kilobyte has 1,024 bytes and a megabyte 1,000
	// kilobytes. bytes is the field in bytes per second.
	megabytes, bytes Field
}

// mostLinks is the number of NVLinks that have fields in DCGM.
const mostLinks = 18

// linkRates returns all rates of NVLinks. DCGM's legacy fields of the links are in groups of
// consecutive numbers.
func linkRates() []linkRate {
	out := []linkRate{{NVLinkTxBytes, NVLinkRxBytes, allLinks, DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL, DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND}}
	for i := range Field(mostLinks) {
		legacy := DCGM_FI_DEV_NVLINK_THROUGHPUT_L0 + i
		switch {
		case i >= 15:
			legacy = DCGM_FI_DEV_NVLINK_THROUGHPUT_L15 + i - 15
		case i >= 12:
			legacy = DCGM_FI_DEV_NVLINK_THROUGHPUT_L12 + i - 12
		case i >= 6:
			legacy = DCGM_FI_DEV_NVLINK_THROUGHPUT_L6 + i - 6
		}
		out = append(out, linkRate{linkBytes + 2*i, linkBytes + 2*i + 1, uint32(i), legacy, DCGM_FI_DEV_NVLINK_THROUGHPUT_L0_BYTES_PER_SECOND + i})
	}
	return out
}

// linkCounters returns the counters of bytes of NVLinks. GPUs with NVLink 5 have the second pair.
func linkCounters() []fieldSource {
	var out []fieldSource
	for _, l := range linkRates() {
		out = append(out,
			fieldSource{field: l.tx, id: gonvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, scope: l.scope, scale: 1024, counts: true},
			fieldSource{field: l.rx, id: gonvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, scope: l.scope, scale: 1024, counts: true},
			fieldSource{field: l.tx, id: gonvml.FI_DEV_NVLINK_COUNT_XMIT_BYTES, scope: l.scope, scale: 1, counts: true},
			fieldSource{field: l.rx, id: gonvml.FI_DEV_NVLINK_COUNT_RCV_BYTES, scope: l.scope, scale: 1, counts: true})
	}
	return out
}

// linkRates derives the wanted rates. A rate of a link without counters is absent.
func (r *reading) linkRates(refused map[Field]gonvml.Return) {
	for _, l := range r.sampler.plan.rates {
		r.linkRate(l, refused)
	}
}

func (r *reading) linkRate(l linkRate, refused map[Field]gonvml.Return) {
	v, s := r.sample.GPU, r.sampler
	tx, sends := v[l.tx]
	rx, receives := v[l.rx]
	if !sends || !receives {
		if ret, ok := refused[l.tx]; ok {
			_ = r.checkCall(&nvml.Error{Symbol: symFieldValues, Return: ret}, symFieldValues, l.megabytes, l.bytes) // an earlier call has handled the error
		}
	} else {
		if s.rates[l.bytes] == nil {
			s.rates[l.bytes] = &rate{}
		}
		if perSecond, ok := s.rates[l.bytes].next(tx+rx, r.sample.At); ok {
			into := r.into(v)
			into(l.megabytes, math.Floor(perSecond/1024/1000))
			into(l.bytes, perSecond)
		} else {
			r.sample.Begun = true
		}
	}
	for _, f := range []Field{l.tx, l.rx} {
		if !s.wanted[f] {
			delete(v, f)
		}
	}
}
