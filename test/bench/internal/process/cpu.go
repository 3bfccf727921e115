package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the processor time that the process has used so far. It fails if the process
// has ended.
func (p *Process) CPU() (time.Duration, error) {
	path := fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	cpu, err := cpuOf(string(data))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	return cpu, nil
}

// CPUClock is like CPU, but with a resolution of nanoseconds instead of hundredths of a second. It
// does not notice that the process has ended. It reads the clock of the process, see
// clock_getcpuclockid(3).
func (p *Process) CPUClock() (time.Duration, error) {
	// MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of Linux.
	const scheduled = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|scheduled), &ts); err != nil {
		return 0, fmt.Errorf("read the processor time of %s: %w", p.name(), err)
	}
	return time.Duration(ts.Nano()), nil
}

// CPUDuring returns the processor time that the process uses while f runs, as CPUClock does.
func (p *Process) CPUDuring(f func() error) (time.Duration, error) {
	before, err := p.CPUClock()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := p.CPUClock()
	return after - before, err
}

// cpuOf returns the processor time in the text of /proc/PID/stat (proc_pid_stat(5)): utime
// and stime, in hundredths of a second.
func cpuOf(stat string) (time.Duration, error) {
	// The name of the program, in parentheses, may have spaces and parentheses in it.
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	const utime, stime = 11, 12
	if len(fields) <= stime {
		return 0, fmt.Errorf("find utime and stime: %q is too short", stat)
	}
	if fields[0] == "Z" {
		return 0, errors.New("the process has ended")
	}
	ticks := 0
	for _, i := range []int{utime, stime} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, fmt.Errorf("read utime and stime: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
