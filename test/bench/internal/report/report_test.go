package report_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"outrigger.dev/test/bench/internal/report"
)

func TestTableMarksResultsOverTheirTarget(t *testing.T) {
	var out bytes.Buffer
	table := report.New(&out, io.Discard)
	times := []time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}
	table.AddTimes("fast", times, report.Goal{Peer: "5 ms", Target: 2}, "0 calls")
	table.AddTimes("slow", times, report.Goal{Target: 1.9}, "")
	table.Add(report.Row{Operation: "memory", Value: 0.5, Unit: "MiB"})
	table.AddPerMinute(report.Row{Operation: "calls", Value: 3, Unit: "calls", Goal: report.Goal{None: true}}, 20*time.Second)
	table.AddRatio("fast", "memory")
	table.AddRatio("fast", "what was not measured")
	table.Skip("C", "no compiler")
	table.AddRatio("fast", "C")
	if err := table.Print(); err != nil {
		t.Fatal(err)
	}
	want := `OPERATION      MEDIAN     TARGET           PEER  NOTE
fast           2.0 ms     ≤ 2.0 ms   ok    5 ms  1.0 ms to 3.0 ms, 0 calls
slow           2.0 ms     ≤ 1.9 ms   over  -     1.0 ms to 3.0 ms
memory         0.500 MiB  -                -     
calls          9 calls    ≤ 0 calls  over  -     counted for 20s
fast / memory  4.0 ×      -                -     
C              skipped    -                -     no compiler
`
	if got := out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestPercentile(t *testing.T) {
	var hundred []int
	for i := range 100 {
		hundred = append(hundred, 100-i)
	}
	for name, c := range map[string]struct {
		values        []int
		percent, want int
	}{
		"the median of one":    {[]int{7}, 50, 7},
		"the median of three":  {[]int{9, 1, 5}, 50, 5},
		"the median of four":   {[]int{4, 3, 2, 1}, 50, 3},
		"99 percent of three":  {[]int{9, 1, 5}, 99, 9},
		"99 percent of many":   {hundred, 99, 100},
		"a quarter of hundred": {hundred, 25, 26},
		"all":                  {hundred, 100, 100},
	} {
		t.Run(name, func(t *testing.T) {
			if got := report.Percentile(c.values, c.percent); got != c.want {
				t.Errorf("Percentile() = %d, want %d", got, c.want)
			}
		})
	}
}
