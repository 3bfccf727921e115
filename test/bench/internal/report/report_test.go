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
	table.AddRatio("fast", "memory")
	table.AddRatio("fast", "what was not measured")
	if err := table.Print(); err != nil {
		t.Fatal(err)
	}
	want := `OPERATION      MEDIAN     TARGET          PEER  NOTE
fast           2.0 ms     ≤ 2.0 ms  ok    5 ms  1.0 ms to 3.0 ms, 0 calls
slow           2.0 ms     ≤ 1.9 ms  over  -     1.0 ms to 3.0 ms
memory         0.500 MiB  -               -     
fast / memory  4.0 ×      -               -     
`
	if got := out.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
