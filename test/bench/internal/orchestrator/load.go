package orchestrator

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// load is the processor time of the machine since its boot.
type load struct {
	busy, total time.Duration
}

// tick is the unit of /proc/stat.
const tick = 10 * time.Millisecond

// machineLoad reads the load of the machine.
func machineLoad() (load, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return load{}, fmt.Errorf("read load of the machine: %w", err)
	}
	return parseLoad(string(text))
}

// parseLoad reads the first line of /proc/stat: cpu, user, nice, system, idle, iowait and
// others (proc_stat(5)).
func parseLoad(text string) (load, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return load{}, fmt.Errorf("read load of the machine: /proc/stat begins with %q", line)
	}
	var l load
	// user and nice already include the time of guests, the last fields.
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return load{}, fmt.Errorf("read load of the machine: %w", err)
		}
		l.total += time.Duration(ticks) * tick
		if i != 3 && i != 4 {
			l.busy += time.Duration(ticks) * tick
		}
	}
	return l, nil
}

// bound is the load, in percent, above which the machine limits the speed of the roll-out.
const bound = 90

// since describes the load of the machine since the load before was read, and the share of the
// program. The parameter program is the processor time of the program in this period.
func (l load) since(before load, program time.Duration) string {
	total := l.total - before.total
	if total <= 0 {
		return "no load measured"
	}
	share := func(d time.Duration) float64 { return 100 * float64(d) / float64(total) }
	busy := share(l.busy - before.busy)
	text := fmt.Sprintf("the machine was %.0f %% busy, %.1f %% with the program", busy, share(program))
	if busy >= bound {
		text += ": the machine is the bound"
	}
	return text
}
