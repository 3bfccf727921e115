package reader

import "time"

// Hurry makes the watches of a reader check often what NVML does not report, so
// that tests need not wait for it.
func (r *Reader) Hurry(rest, probe time.Duration) *Reader {
	r.times = times{rest: rest, probe: probe}
	return r
}
