package build_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/progress"
)

// twoObjects makes a.o, then b.o, whose recipe is given.
func twoObjects(b string) string {
	return "modules: a.o b.o\na.o:\n\t@echo a >> RUNS; echo a > a.o\nb.o: a.o\n\t@echo b >> RUNS; echo half > b.o; " + b + "\n.DELETE_ON_ERROR:\n"
}

func TestObjectsStayForTheNextBuild(t *testing.T) {
	const killed = "echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 1"
	for name, test := range map[string]struct {
		b      string
		change func(r *tried)
		want   string
	}{
		"a compiler that is killed": {killed, nil, "a b b"},
		"a build that is cancelled": {"echo '  CC [M]  b.o'; sleep 600 & wait", nil, "a b b"},
		"a make that is killed":     {"kill -9 $$PPID; sleep 600", nil, "a b a b"},
		"a full disk":               {"echo 'b.s: No space left on device'; exit 1", nil, "a b a b"},
		"an error of the compiler":  {"echo 'b.c:1: error: no'; exit 1", nil, "a b a b"},
		"other headers": {killed, func(r *tried) {
			write(r.t, r.root+"/usr/src/linux-headers-"+r.request.Release+"/Module.symvers", "new")
		}, "a b a b"},
		"a crash of the node":         {killed, func(r *tried) { write(r.t, r.Places.Store+"/build/work/inputs", "before the boot") }, "a b a b"},
		"files that are not complete": {killed, func(r *tried) { assert.NilError(r.t, os.Remove(r.Places.Store+"/build/work/inputs")) }, "a b a b"},
		"another driver in the middle": {killed, func(r *tried) {
			own := r.request.Payload
			r.driver("modules:\n\t@exit 1\n")
			r.again()
			r.request.Payload = own
		}, "a b a b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTried(t, twoObjects(test.b))
			for range 2 {
				ctx, cancel := context.WithCancel(t.Context())
				r.Progress = func(p progress.Progress) {
					if p.Step == build.StepCompile && p.Done > 0 {
						cancel()
					}
				}
				if _, err := r.Build(ctx, r.request); err == nil || ctx.Err() != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
				if test.change != nil {
					test.change(r)
				}
			}
			data, err := os.ReadFile(r.runs)
			if got := strings.Join(strings.Fields(string(data)), " "); err != nil || got != test.want {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestFilesOfAnAbandonedBuildAreRemoved(t *testing.T) {
	r := newTried(t, twoObjects("echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 1"))
	work := r.Places.Store + "/build/work"
	r.again()
	info, err := os.Stat(work)
	assert.NilError(t, err)
	for _, age := range []time.Duration{0, 23 * time.Hour, 25 * time.Hour} {
		r.now = info.ModTime().Add(age)
		assert.NilError(t, r.RemoveAbandoned())
		if _, err := os.Stat(work); (err == nil) != (age < 24*time.Hour) {
			t.Errorf("after %s: %v", age, err)
		}
	}
	assert.NilError(t, r.RemoveAbandoned())
}
