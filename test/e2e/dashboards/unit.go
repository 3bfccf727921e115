package dashboards

import (
	"math"
	"strconv"
)

// unit is the display format of a Grafana unit. Each suffix is base times the previous one.
type unit struct {
	base     float64
	suffixes []string
	// factor converts a value to the unit of the first suffix.
	factor float64
}

func unitOf(name string) unit {
	switch name {
	case "percent":
		return unit{0, []string{"%"}, 1}
	case "percentunit":
		return unit{0, []string{"%"}, 100}
	case "celsius":
		return unit{0, []string{" °C"}, 1}
	case "watt":
		return unit{1000, []string{" W", " kW", " MW"}, 1}
	case "joule":
		return unit{1000, []string{" J", " kJ", " MJ", " GJ"}, 1}
	case "hertz":
		return unit{1000, []string{" Hz", " kHz", " MHz", " GHz"}, 1}
	case "bytes":
		return unit{1024, []string{" B", " KiB", " MiB", " GiB", " TiB"}, 1}
	case "mbytes":
		return unit{1024, []string{" MiB", " GiB", " TiB"}, 1}
	case "Bps":
		return unit{1000, []string{" B/s", " kB/s", " MB/s", " GB/s", " TB/s"}, 1}
	case "s":
		return unit{1000, []string{" µs", " ms", " s"}, 1e6}
	case "h":
		return unit{0, []string{" h"}, 1}
	default:
		return unit{0, []string{""}, 1}
	}
}

// scale returns the suffix for values up to most, and the value of one unit with this suffix.
func (u unit) scale(most float64) (suffix string, one float64) {
	if most == 0 {
		most = 1
	}
	one = 1 / u.factor
	suffix = u.suffixes[0]
	for _, next := range u.suffixes[1:] {
		if math.Abs(most) < one*u.base {
			break
		}
		one *= u.base
		suffix = next
	}
	return suffix, one
}

// show returns a value with its unit.
func (u unit) show(v float64) string {
	if math.IsNaN(v) {
		return "NaN"
	}
	suffix, one := u.scale(v)
	return digits(v/one) + suffix
}

// digits returns a number with at most three significant digits.
func digits(v float64) string {
	places := 0
	if v != 0 {
		places = max(0, min(3, 2-int(math.Floor(math.Log10(math.Abs(v))))))
	}
	rounded := math.Round(v*math.Pow10(places)) / math.Pow10(places)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// ticks returns about four round values between low and high.
func (u unit) ticks(low, high float64) []float64 {
	_, one := u.scale(high)
	span := (high - low) / one / 4
	step := math.Pow10(int(math.Floor(math.Log10(span))))
	for _, times := range []float64{1, 2, 2.5, 5, 10} {
		if step*times >= span {
			step *= times
			break
		}
	}
	var out []float64
	for v := math.Ceil(low/one/step) * step; v <= high/one*1.0001; v += step {
		out = append(out, v*one)
	}
	return out
}
