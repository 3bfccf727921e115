package build

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/progress"
)

// batch is a number of equal lines of NVIDIA's makefiles: the line, the command that prints it in a
// dry run, and how long the action takes.
type batch struct {
	lines      int
	line, plan string
	takes      time.Duration
}

// nvidia returns what make prints for NVIDIA's driver 580.95.05. factor changes the duration of files
// that include headers of the kernel.
func nvidia(factor float64) []batch {
	const ms = time.Millisecond
	slow := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	return []batch{
		{1010, ` [ nvidia            ]  CC           file.c`, `printf " [ %-17.17s ]  CC           file.c\n" "nvidia" && cc -c file.c -o _out/file.o`, 600 * ms},
		{1, ` [ nvidia            ]  LD           _out/nv-kernel.o`, `printf " [ %-17.17s ]  LD           _out/nv-kernel.o\n" "nvidia" && ld`, 2000 * ms},
		{1, ` [ nvidia            ]  OBJCOPY      _out/nv-kernel.o`, `printf " [ %-17.17s ]  OBJCOPY      _out/nv-kernel.o\n" "nvidia" && objcopy`, 900 * ms},
		{193, ` [ nvidia-modeset    ]  CC           file.c`, `printf " [ %-17.17s ]  CC           file.c\n" "nvidia-modeset" && cc -c file.c`, 500 * ms},
		{35, ` [ nvidia-modeset    ]  CXX          file.cpp`, `printf " [ %-17.17s ]  CXX          file.cpp\n" "nvidia-modeset" && c++ -c file.cpp`, 900 * ms},
		{8, ` [ nvidia-modeset    ]  XZ           _out/a_shaders.xz`, `printf " [ %-17.17s ]  XZ           _out/a_shaders.xz\n" "nvidia-modeset" && xz`, 100 * ms},
		{1, `make[1]: Entering directory '/usr/src/linux-headers-6.1.0-1-amd64'`, `mkdir -p x`, 60000 * ms}, // tests without lines
		{209, ` CONFTEST: name`, `echo " CONFTEST: name"`, slow(500 * ms)},
		{208, `  CC [M]  /work/nvidia/nv.o`, `set -e; echo '  CC [M]  /work/nvidia/nv.o'; gcc-12 -c nv.c`, slow(1800 * ms)},
		{5, `  LD [M]  /work/nvidia.o`, `set -e; echo '  LD [M]  /work/nvidia.o'; ld`, 500 * ms},
		{1, `  MODPOST /work/Module.symvers`, ``, 500 * ms},
		{5, `  CC [M]  /work/nvidia.mod.o`, ``, slow(900 * ms)},
		{5, `  LD [M]  /work/nvidia.ko`, ``, 500 * ms},
		{5, `  BTF [M] /work/nvidia.ko`, ``, 100 * ms},
	}
}

// fakeMake puts a make into the PATH that prints the lines.
func fakeMake(t *testing.T, batches []batch) {
	t.Helper()
	dir := t.TempDir()
	var plan, lines strings.Builder
	for _, b := range batches {
		plan.WriteString(strings.Repeat("cc -E "+strings.Repeat("x", 2*maxLine)+" CC [M] x.o\n"+b.plan+"\n", min(b.lines, 1)))
		plan.WriteString(strings.Repeat(b.plan+"\n", b.lines-1))
		lines.WriteString(strings.Repeat(b.line+"\n", b.lines))
	}
	assert.NilError(t, os.WriteFile(dir+"/plan", []byte(plan.String()), 0o600))
	assert.NilError(t, os.WriteFile(dir+"/lines", []byte(lines.String()), 0o600))
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = --dry-run ]; then cat %[1]s/plan; exit 2; fi\ncat %[1]s/lines\n", dir)
	assert.NilError(t, os.WriteFile(dir+"/make", []byte(script), 0o700)) //nolint:gosec // a program
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestTheProgressOfNVIDIAsMakefiles counts the lines of NVIDIA's makefiles: each step goes up to its total,
// and in the second half of the time, the estimate of the time that is left is right within a factor of two.
func TestTheProgressOfNVIDIAsMakefiles(t *testing.T) {
	for _, factor := range []float64{0.6, 1, 1.6} {
		batches := nvidia(factor)
		fakeMake(t, batches)
		// The clock shows the time when make prints each line.
		var times []time.Time
		now := time.Unix(0, 0)
		for _, b := range batches {
			for range b.lines {
				times = append(times, now)
				now = now.Add(b.takes)
			}
		}
		half := now.Sub(times[0]) / 2
		line := -1
		last := map[string]progress.Progress{}
		m := makeRun{
			dir: t.TempDir(), log: filepath.Join(t.TempDir(), "log"), subject: "modules",
			now: func() time.Time { line++; return times[line] },
			progress: func(p progress.Progress) {
				before := last[p.Step]
				if p.Done < before.Done || p.Total < before.Total && p.Done < p.Total || p.Done > p.Total {
					t.Errorf("%s after %s", p, before)
				}
				last[p.Step] = p
				at := times[line]
				left := now.Sub(at)
				if left < half && left > 10*time.Second && (p.Left < left/2 || p.Left > 2*left) {
					t.Fatalf("factor %v: %s, and %s are left", factor, p, left)
				}
			},
		}
		complete, err := m.run(t.Context())
		assert.NilError(t, err)
		for step, want := range map[string]int{StepConftest: 209, StepCompile: 1010 + 193 + 35 + 208 + 5, StepLink: 1 + 1 + 8 + 5 + 1 + 5 + 5} {
			if p := last[step]; p.Done != want || p.Total != want || p.Left != 0 || !complete {
				t.Errorf("%s: at the end %+v, want %d", step, p, want)
			}
		}
	}
}

// TestADryRunPlans has all actions in the total from the start.
func TestADryRunPlans(t *testing.T) {
	fakeMake(t, nvidia(1))
	measure := newMeter()
	makeRun{dir: t.TempDir(), headers: Headers{BTF: true}}.plan(t.Context(), measure)
	for step, want := range map[string]int{StepConftest: 209, StepCompile: 1010 + 193 + 35 + 208 + 5, StepLink: 1 + 1 + 8 + 5 + 1 + 5 + 5} {
		if p := measure.progress(step); p.Total != want || p.Done != 0 || p.Left != 0 {
			t.Errorf("%s: %+v, want %d", step, p, want)
		}
	}
}
