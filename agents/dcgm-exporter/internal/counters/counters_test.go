package counters_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
)

func TestTheDefaultListIsServedWhole(t *testing.T) {
	metrics, problems, err := counters.Parse(counters.Default)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if len(metrics) != 26 {
		t.Errorf("%d metrics, want the 25 of NVIDIA's list and its label", len(metrics))
	}
	// Each line that is off by default can be turned on.
	all := bytes.ReplaceAll(counters.Default, []byte("\n# DCGM_"), []byte("\nDCGM_"))
	metrics, problems, err = counters.Parse(all)
	if err != nil || len(problems) > 0 || len(metrics) < 45 {
		t.Fatal(len(metrics), err, problems)
	}
}

func TestAnySpellingOfAField(t *testing.T) {
	metrics, problems, err := counters.Parse([]byte(`
DCGM_FI_DEV_POWER_USAGE, gauge, a
DCGM_FI_DEV_BOARD_POWER_WATTS ,gauge,b
dcgm_power_usage, gauge, "c, with a comma"
DCGM_FI_DEV_SM_CLOCK_HERTZ, gauge,
`))
	// A quote after a space is an error, as in NVIDIA's exporter.
	if err != nil || len(metrics) != 3 || len(problems) != 1 || problems[0].Line != 4 {
		t.Fatal(metrics, problems, err)
	}
	metrics, problems, err = counters.Parse([]byte("DCGM_FI_DEV_POWER_USAGE, gauge, a\nDCGM_FI_DEV_BOARD_POWER_WATTS ,gauge,b\n" +
		"dcgm_power_usage, gauge,\"c, with a comma\"\nDCGM_FI_DEV_SM_CLOCK_HERTZ, gauge,\n"))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	type row struct {
		Name  string
		Of    uint16
		Scale float64
		Help  string
	}
	var got []row
	for _, m := range metrics {
		got = append(got, row{m.Name, uint16(m.Field.ValueFrom), m.Field.Scale, m.Help})
	}
	want := []row{
		{"DCGM_FI_DEV_POWER_USAGE", 155, 1, "a"},
		{"DCGM_FI_DEV_BOARD_POWER_WATTS", 155, 1, "b"},
		{"dcgm_power_usage", 155, 1, "c, with a comma"},
		{"DCGM_FI_DEV_SM_CLOCK_HERTZ", 100, 1e6, ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBadLinesAreNamedAndTheRestIsServed(t *testing.T) {
	for _, c := range []struct{ line, problem string }{
		{"DCGM_FI_DEV_NOTHING, gauge, x", "line 2: DCGM_FI_DEV_NOTHING is not a field of DCGM: use the name of a field, such as DCGM_FI_DEV_GPU_TEMP, or remove the line"},
		{"DCGM_FI_DEV_PSATTE, gauge, x", "line 2: DCGM_FI_DEV_PSATTE is not a field of DCGM: did you mean DCGM_FI_DEV_PSTATE?"},
		{"DCGM_FI_DEV_GPU_TEMP", "line 2: 1 values, want 3"},
		{"DCGM_FI_DEV_GPU_TEMP, gauge, hot, very", "line 2: 4 values, want 3"},
		{"DCGM_FI_DEV_GPU_TEMP, histogram, x", `line 2: DCGM_FI_DEV_GPU_TEMP: unknown type "histogram"`},
		{"DCGM_FI_DEV_GPU_TEMP, label, x", "line 2: DCGM_FI_DEV_GPU_TEMP: a number that changes cannot be a label"},
		{"DCGM_FI_DRIVER_VERSION, gauge, x", "line 2: DCGM_FI_DRIVER_VERSION: its value is text"},
		{"DCGM_FI_DEV_FB_USED, gauge, again", "line 2: DCGM_FI_DEV_FB_USED is in line 1 already"},
		{"DCGM_FI_DEV_CPU_UTIL_TOTAL, gauge, x", "line 2: DCGM_FI_DEV_CPU_UTIL_TOTAL"},
		{"DCGM_EXP_UNHEARD_OF, gauge, x", "line 2: DCGM_EXP_UNHEARD_OF: this exporter does not compute it"},
		{"\x1b[31m, gauge, x", "line 2: "},
		{`DCGM_FI_DEV_GPU_TEMP, gauge, "a`, "line 2: "},
		{`DCGM_FI_DEV_GPU_TEMP, gauge,"a`, "line 2: "},
	} {
		metrics, problems, err := counters.Parse([]byte("DCGM_FI_DEV_FB_USED, gauge, used\n" + c.line + "\n"))
		if err != nil || len(metrics) != 1 || metrics[0].Name != "DCGM_FI_DEV_FB_USED" {
			t.Errorf("%q: %v, %v", c.line, metrics, err)
		}
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), c.problem) {
			t.Errorf("%q: %v, want %q", c.line, problems, c.problem)
		}
		if strings.Contains(problems[0].Error(), "\x1b") {
			t.Errorf("%q: control characters in %q", c.line, problems[0])
		}
	}
}

func TestANumberThatDoesNotChangeCanBeALabel(t *testing.T) {
	metrics, problems, err := counters.Parse([]byte("DCGM_FI_CUDA_DRIVER_VERSION, label, a\nDCGM_FI_DEV_MINOR_NUMBER, label, b\n"))
	if err != nil || len(problems) > 0 || len(metrics) != 2 {
		t.Error(metrics, problems, err)
	}
}

func TestAByteOrderMarkIsNotPartOfTheFirstName(t *testing.T) {
	metrics, problems, err := counters.Parse([]byte("\ufeffDCGM_FI_DEV_FB_USED, gauge, used\n"))
	if err != nil || len(problems) > 0 || len(metrics) != 1 || metrics[0].Name != "DCGM_FI_DEV_FB_USED" {
		t.Error(metrics, problems, err)
	}
}

func TestAListWithoutMetricsIsAnError(t *testing.T) {
	for _, data := range []string{"", "# nothing\n", "garbage", strings.Repeat("x", counters.Limit+1)} {
		if metrics, _, err := counters.Parse([]byte(data)); err == nil {
			t.Errorf("%.20q: %v", data, metrics)
		}
	}
	many := strings.Repeat("a, b, c\n", 10_000)
	if _, problems, err := counters.Parse([]byte(many)); err == nil || len(problems) > 50 {
		t.Error(len(problems), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(counters.Default)
	f.Add([]byte("a, \"b\nc"))
	f.Fuzz(func(t *testing.T, data []byte) {
		metrics, _, err := counters.Parse(data)
		if err == nil && len(metrics) == 0 {
			t.Error("neither metrics nor an error")
		}
		seen := map[string]bool{}
		for _, m := range metrics {
			if seen[m.Name] || m.Name == "" {
				t.Errorf("%q twice", m.Name)
			}
			seen[m.Name] = true
		}
	})
}
