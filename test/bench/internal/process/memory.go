package process

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/pkg/pace"
)

// idleFor is how long a process is left alone before it counts as idle.
const idleFor = 3 * time.Second

// Memory is the memory of a process, in MiB.
type Memory struct {
	// RSS is the resident memory. Anonymous is the part of it without a file behind it.
	RSS, Anonymous float64
	// Peak is the largest RSS so far.
	Peak float64
}

// Resident returns the resident memory as text. It includes pages of files, which the kernel shares
// among the processes of a program and can drop.
func (m Memory) Resident() string { return fmt.Sprintf("RSS %.1f MiB", m.RSS) }

// Memory returns the current memory of the process.
func (p *Process) Memory() (Memory, error) { return memoryOf(p.cmd.Process.Pid) }

func memoryOf(pid int) (m Memory, err error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	data, err := os.ReadFile(path)
	if err != nil {
		return m, err
	}
	for key, to := range map[string]*float64{"VmRSS": &m.RSS, "RssAnon": &m.Anonymous, "VmHWM": &m.Peak} {
		if *to, err = mebibytes(string(data), key); err != nil {
			return m, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return m, nil
}

// Idle waits until the process is idle, and returns its memory.
func (p *Process) Idle(ctx context.Context) (Memory, error) {
	if !pace.Pause(ctx, idleFor) {
		return Memory{}, ctx.Err()
	}
	return p.Memory()
}

// mebibytes returns the value of a line of /proc/PID/status.
func mebibytes(status, key string) (float64, error) {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return float64(kib) / 1024, err
		}
	}
	return 0, fmt.Errorf("find line %s: not there", key)
}
