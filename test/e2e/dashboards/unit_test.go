package dashboards

import (
	"fmt"
	"testing"
)

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		unit  string
		value float64
		want  string
	}{
		{"", 0, "0"},
		{"", 7, "7"},
		{"", 12345, "12345"},
		{"percent", 87.4, "87.4%"},
		{"percentunit", 0.375, "37.5%"},
		{"watt", 2519, "2.52 kW"},
		{"mbytes", 512, "512 MiB"},
		{"mbytes", 81920, "80 GiB"},
		{"bytes", 3 << 30, "3 GiB"},
		{"Bps", 1.5e11, "150 GB/s"},
		{"hertz", 1.98e9, "1.98 GHz"},
		{"celsius", 71, "71 °C"},
		{"s", 0, "0 s"},
		{"s", 0.0004, "400 µs"},
		{"s", 0.254, "254 ms"},
		{"s", 150, "150 s"},
		{"joule", -2500, "-2.5 kJ"},
	} {
		if got := unitOf(c.unit).show(c.value); got != c.want {
			t.Errorf("%v %s is %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		unit      string
		low, high float64
		want      string
	}{
		{"percentunit", 0, 1, "[0 0.25 0.5 0.75 1]"},
		{"watt", 0, 1800, "[0 500 1000 1500]"},
		{"mbytes", 0, 81920, "[0 20480 40960 61440 81920]"},
	} {
		if got := fmt.Sprint(unitOf(c.unit).ticks(c.low, c.high)); got != c.want {
			t.Errorf("%s from %v to %v has the ticks %s, want %s", c.unit, c.low, c.high, got, c.want)
		}
	}
}

func TestLegendsAndVariables(t *testing.T) {
	labels := map[string]string{"gpu": "4", "GPU_I_PROFILE": "3g.40gb"}
	if got, want := legend("GPU {{gpu}} {{mig}} {{GPU_I_PROFILE}}", labels), "GPU 4 3g.40gb"; got != want {
		t.Errorf("legend %q, want %q", got, want)
	}
	if got, want := legend("", labels), `{GPU_I_PROFILE="3g.40gb", gpu="4"}`; got != want {
		t.Errorf("legend %q, want %q", got, want)
	}
	values := Values{"node": "gpu-1", "__range": "5m"}
	expr := `label_replace(a{n="$node", m="${node}"}[$__range], "mig", "MIG $1", "x", "(.+)")`
	if got, want := values.in(expr), `label_replace(a{n="gpu-1", m="gpu-1"}[5m], "mig", "MIG $1", "x", "(.+)")`; got != want {
		t.Errorf("expression %q, want %q", got, want)
	}
}
