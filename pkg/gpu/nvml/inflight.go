package nvml

import (
	"fmt"
	"sync"
	"time"

	"outrigger.dev/pkg/gpu"
)

const (
	// hangLimit is how long a call may take before NVML is said to hang: far
	// more than any call takes on a busy node, the first one after a boot included.
	hangLimit = 30 * time.Second
	// giveUp is how long a call is waited for that whoever made it no longer
	// needs: more than the longest wait for an event, and little enough for an
	// agent to stop in time.
	giveUp = 800 * time.Millisecond
	// noGPU is the index in a call that concerns no single GPU.
	noGPU = -1
)

// call is a call of NVML that has not returned.
type call struct {
	op  string
	gpu int
	// within is how long the call may take by intent.
	within time.Duration
	since  time.Time
}

// hangs returns the call as an error, if it has taken longer than limit.
func (c call) hangs(now time.Time, limit time.Duration) error {
	took := now.Sub(c.since)
	if took < limit {
		return nil
	}
	what := c.op
	if c.gpu != noGPU {
		what = fmt.Sprintf("%s of GPU %d", c.op, c.gpu)
	}
	what = fmt.Sprintf("%s has not answered for %s", what, took.Round(time.Second))
	if took < hangLimit {
		return fmt.Errorf("%s: %w, or is slow, and is not waited for", what, gpu.ErrHangs)
	}
	return fmt.Errorf("%s: %w (look for NVRM in dmesg, drain the node, and reset the GPU or reboot)", what, gpu.ErrHangs)
}

// inFlight holds the calls that have not returned: nothing can interrupt them,
// so all that can be done about one that hangs is to know of it.
type inFlight struct {
	now func() time.Time

	mu sync.Mutex
	// calls has an empty op where a place is free.
	calls []call
}

// begin notes a call, and returns its place for end.
func (f *inFlight) begin(c call) int {
	c.since = f.now().Add(c.within)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.calls {
		if f.calls[i].op == "" {
			f.calls[i] = c
			return i
		}
	}
	f.calls = append(f.calls, c)
	return len(f.calls) - 1
}

func (f *inFlight) end(place int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[place] = call{}
}

// hangs returns the oldest call as an error, if it has taken longer than limit.
func (f *inFlight) hangs(limit time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var oldest call
	for _, c := range f.calls {
		if c.op != "" && (oldest.op == "" || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	if oldest.op == "" {
		return nil
	}
	return oldest.hangs(f.now(), limit)
}

// leash runs f, which calls NVML. After end is closed it returns with f, or
// without it if NVML does not let go of it; then f ends when NVML answers.
func leash[T any](calls *inFlight, end <-chan struct{}, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-end:
	}
	tick := time.NewTicker(giveUp)
	defer tick.Stop()
	for {
		select {
		case r := <-done:
			return r.value, r.err
		case <-tick.C:
		}
		if err := calls.hangs(giveUp); err != nil {
			var none T
			return none, err
		}
	}
}
