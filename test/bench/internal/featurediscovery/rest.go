package featurediscovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/test/bench/internal/report"
)

// atRest measures the processor time of the agent and counts its NVML calls and API requests, while
// no GPU changes. The count includes calls that wait for events.
func (b *Bench) atRest(ctx context.Context, s scene) (err error) {
	a, err := b.begin(ctx, s, onNode())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	// When the agent is idle, the work of the start is over.
	if _, err := a.Idle(ctx); err != nil {
		return err
	}
	asked := a.dest.api.Requests()
	total := 0
	cpu, err := a.CPUDuring(func() (err error) {
		total, err = b.Node.CallsDuring(ctx, b.Rest)
		return err
	})
	if err != nil {
		return err
	}
	b.Report.AddPerMinute(report.Row{
		Operation: s.part + " CPU in a minute at rest, " + s.name, Value: 1000 * cpu.Seconds(), Unit: "ms", Goal: report.Goal{Target: 20},
	}, b.Rest)
	b.Report.AddPerMinute(report.Row{
		Operation: s.part + " NVML calls in a minute at rest, " + s.name, Value: float64(total), Unit: "calls", Goal: s.rest,
		Note: "requests to the API server: " + requests(asked, a.dest.api.Requests()),
	}, b.Rest)
	return nil
}

// requests lists the kinds of requests whose number has increased, with the difference.
func requests(before, now map[string]int) string {
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(now)) {
		if more := now[kind] - before[kind]; more > 0 {
			list = append(list, fmt.Sprintf("%d × %s", more, kind))
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
