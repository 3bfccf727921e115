package nvml

import (
	"os"
	"testing"
	"time"

	"gotest.tools/v3/assert"
)

// TestACallThatEndsLateHoldsNothingUp: on a slow driver, or a busy machine, another call is in
// flight while the waits for events are interrupted.
func TestACallThatEndsLateHoldsNothingUp(t *testing.T) {
	calls := &inFlight{now: time.Now}
	read := calls.begin(call{symbol: "nvmlDeviceGetName"})
	calls.begin(call{symbol: "nvmlEventSetWait_v2", thread: os.Getpid()})
	stuck, end := make(chan struct{}), make(chan struct{})
	defer close(stuck)
	close(end)
	begin := time.Now()
	time.AfterFunc(2*interrupts*interruptPause, func() { calls.end(read) })
	_, err := runInterruptible(calls, end, func() (struct{}, error) { <-stuck; return struct{}{}, nil })
	assert.ErrorIs(t, err, errStillWaiting)
	if took := time.Since(begin); took >= giveUp {
		t.Errorf("the end took %s although the call ended, want less than %s", took, giveUp)
	}
}
