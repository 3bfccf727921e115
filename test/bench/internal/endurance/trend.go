package endurance

import "fmt"

const (
	// maxGrowth is the maximum growth of memory from the end of the warm-up to the end, in MiB: the
	// memory after a garbage collection varies.
	maxGrowth = 2.0
	// maxTrend is the maximum rise of the regression line through the second half, in MiB. A leak
	// would accumulate more in a long run.
	maxTrend = 1.0
	// ends is the number of samples that are averaged at each end.
	ends = 4
)

// trend is the trend of memory samples, in MiB and at equal distances.
type trend struct {
	first, last float64
	// rise is the rise of the regression line through the second half.
	rise float64
}

// trendOf returns the trend of at least 2*ends samples.
func trendOf(samples []float64) trend {
	half := samples[len(samples)/2:]
	n := float64(len(half))
	var meanX, meanY, above, below float64
	meanX, meanY = (n-1)/2, mean(half)
	for i, y := range half {
		x := float64(i) - meanX
		above += x * (y - meanY)
		below += x * x
	}
	return trend{
		first: mean(samples[:ends]), last: mean(samples[len(samples)-ends:]),
		rise: above / below * (n - 1),
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// check returns an error if memory grows.
func (t trend) check() error {
	if t.last-t.first > maxGrowth {
		return fmt.Errorf("check memory: it grew from %.2f to %.2f MiB, allowed are %.1f MiB more", t.first, t.last, maxGrowth)
	}
	if t.rise > maxTrend {
		return fmt.Errorf("check memory: it rose by %.2f MiB in the second half, allowed are %.1f MiB", t.rise, maxTrend)
	}
	return nil
}
