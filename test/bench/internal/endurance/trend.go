package endurance

import "fmt"

const (
	// maxGrowth is how many MiB a process may have more at the end than after it
	// was warmed up: the garbage collector leaves more or less at each time.
	maxGrowth = 2.0
	// maxTrend is how many MiB the straight line through the second half may
	// rise: less than growth that a long run would add up.
	maxTrend = 1.0
	// ends is how many samples are averaged at either end.
	ends = 4
)

// trend is what samples of memory, in MiB and at equal distances, show.
type trend struct {
	first, last float64
	// rise is that of the straight line through the second half.
	rise float64
}

// trendOf needs at least 2*ends samples.
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
		return fmt.Errorf("memory grew from %.2f to %.2f MiB, at most %.1f MiB more are allowed", t.first, t.last, maxGrowth)
	}
	if t.rise > maxTrend {
		return fmt.Errorf("memory rose by %.2f MiB in the second half, at most %.1f MiB are allowed", t.rise, maxTrend)
	}
	return nil
}
