package telemetry

import (
	"time"
)

// counter adds up a counter of the driver that wraps, and that begins again with the driver.
type counter struct {
	last, total float64
	begun       bool
}

func (s *Sampler) counter(f Field) *counter {
	if s.counters[f] == nil {
		s.counters[f] = &counter{}
	}
	return s.counters[f]
}

// add returns the first value of the counter plus all increases since then. A counter that is
// smaller than before has wrapped if its type is narrow and it was in the upper half. Otherwise it
// has begun again.
func (c *counter) add(value, width float64) float64 {
	switch {
	case !c.begun:
		c.total = value
	case value >= c.last:
		c.total += value - c.last
	case width > 0 && c.last >= width/2:
		c.total += value + width - c.last
	default:
		c.total += value
	}
	c.last, c.begun = value, true
	return c.total
}

// rate is the increase per second between two readings.
type rate struct {
	last float64
	at   time.Time
}

func (r *rate) next(value float64, now time.Time) (perSecond float64, ok bool) {
	took := now.Sub(r.at).Seconds()
	if !r.at.IsZero() && took > 0 && value >= r.last {
		perSecond, ok = (value-r.last)/took, true
	}
	r.last, r.at = value, now
	return perSecond, ok
}
