package nvml

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/gpu"
)

const (
	// hangLimit is the time after which a call counts as hanging. It is far longer than any call
	// takes on a busy node, including the first call after a boot.
	hangLimit = 30 * time.Second
	// giveUp is the time that runInterruptible waits for a call that its caller no longer needs. It
	// is short enough for an agent to stop in time.
	giveUp = 800 * time.Millisecond
	// A wait for an event is interrupted this many times, with this pause in between, before
	// runInterruptible checks which other calls are in flight. One interrupt is enough, unless it
	// arrives before the thread waits.
	interrupts     = 50
	interruptPause = 2 * time.Millisecond
)

// errStillWaiting is returned by runInterruptible if a wait for an event still blocks.
var errStillWaiting = errors.New("an earlier wait for an event has not returned")

// call is a call of NVML that has not returned.
type call struct {
	symbol string
	// gpu is the position of the GPU in NVML's list, or noGPU.
	gpu int
	// thread is the thread of a call that waits for an event, and wait the limit of the wait. They
	// are zero for other calls.
	thread int
	wait   time.Duration
	since  time.Time
}

// hangs returns an error that names the call if it has taken limit or longer.
func (c call) hangs(now time.Time, limit time.Duration) error {
	took := now.Sub(c.since)
	if took < limit {
		return nil
	}
	what := c.symbol
	if c.gpu != noGPU {
		what = fmt.Sprintf("%s of GPU %d in NVML's list", c.symbol, c.gpu)
	}
	what = fmt.Sprintf("%s has not answered for %s", what, took.Round(time.Second))
	if took < hangLimit {
		return fmt.Errorf("%s: %w, or is slow: giving up", what, gpu.ErrHangs)
	}
	return fmt.Errorf("%s: %w (look for NVRM in dmesg, drain the node, and reset the GPU or reboot)", what, gpu.ErrHangs)
}

// inFlight records the calls that have not returned. A call that hangs can be detected, but not
// ended.
type inFlight struct {
	now func() time.Time

	mu sync.Mutex
	// calls has a call with an empty symbol in each free place.
	calls []call
}

// begin records a call. It returns the place of the call for end.
func (f *inFlight) begin(c call) int {
	c.since = f.now().Add(c.wait)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.calls {
		if f.calls[i].symbol == "" {
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

// hangs returns an error that names the oldest call if it has taken limit or longer.
func (f *inFlight) hangs(limit time.Duration) error {
	oldest, ok := f.oldest()
	if !ok {
		return nil
	}
	return oldest.hangs(f.now(), limit)
}

// hangsIn returns the time until the oldest call has taken limit. It returns limit if no call is in
// flight.
func (f *inFlight) hangsIn(limit time.Duration) time.Duration {
	oldest, ok := f.oldest()
	if !ok {
		return limit
	}
	return min(limit, oldest.since.Add(limit).Sub(f.now()))
}

// oldest returns the call that began first, and false if no call is in flight.
func (f *inFlight) oldest() (oldest call, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.symbol != "" && (oldest.symbol == "" || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	return oldest, oldest.symbol != ""
}

// interrupt makes the waits for events return. It stops when done is closed, and gives up if the
// waits do not return. nvmlEventSetWait returns when a signal arrives (nvml.h). SIGURG is the
// signal that the Go runtime sends to itself and ignores.
func (f *inFlight) interrupt(done <-chan struct{}) {
	pause := time.NewTicker(interruptPause)
	defer pause.Stop()
	for range interrupts {
		f.signal()
		select {
		case <-done:
			return
		case <-pause.C:
		}
	}
}

func (f *inFlight) signal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.thread != 0 {
			_ = unix.Tgkill(os.Getpid(), c.thread, unix.SIGURG) // after an error, the wait lasts until its limit
		}
	}
}

// waiting reports whether the only calls in flight are waits for an event.
func (f *inFlight) waiting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	waits := false
	for _, c := range f.calls {
		if c.symbol != "" && c.thread == 0 {
			return false
		}
		waits = waits || c.thread != 0
	}
	return waits
}

// runInterruptible runs f, which calls NVML, and returns the results of f. After end is closed, it
// interrupts the waits for events. If f still does not return because a call of NVML does not
// return, runInterruptible returns an error, and f ends when NVML answers.
func runInterruptible[T any](calls *inFlight, end <-chan struct{}, f func() (T, error)) (T, error) {
	var value, none T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		value, err = f()
	}()
	select {
	case <-done:
		return value, err
	case <-end:
	}
	patience := time.Now().Add(giveUp)
	for {
		calls.interrupt(done)
		select {
		case <-done:
			return value, err
		default:
		}
		if calls.waiting() {
			return none, errStillWaiting
		}
		if time.Now().After(patience) {
			if err := calls.hangs(giveUp); err != nil {
				return none, err
			}
		}
	}
}
