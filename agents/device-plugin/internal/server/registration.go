package server

import (
	"os"
	"sync"
	"time"
)

const (
	// listGrace is how long the kubelet may take from a registration to calling
	// ListAndWatch before the registration is repeated. It doubles up to
	// listGraceMax.
	listGrace    = 5 * time.Second
	listGraceMax = time.Minute
	// endGrace is how long the kubelet needs to clean up after a stream ended. A
	// registration that it accepts before that is undone by the clean-up.
	endGrace = 2 * time.Second
	// leaveGrace is how long the kubelet may take to receive the empty list of a
	// withdrawn resource. After that the plugin ends the stream, which withdraws it too.
	receiveGrace = 2 * time.Second
)

// Status says how far the kubelet knows the resource.
type Status struct {
	// Serving is set while the socket accepts calls.
	Serving bool
	// Registered is set while the kubelet's present socket is the one that accepted
	// the registration.
	Registered bool
	// Listed is set while a stream is open to which the devices were sent.
	Listed bool
}

// registration is what the kubelet knows of the resource. It alone owns that state:
// the keeper, which registers, the streams, which send, and the callers of Publish and
// Leave change it through its methods. It does no I/O, and is safe for concurrent use.
type registration struct {
	// changed is called after the Status changed, without the lock.
	changed func()
	// wake is called when the keeper has something to do. It does not block.
	wake func()

	mu     sync.Mutex
	status Status
	// kubelet is the socket that accepted the last registration, at accepted. grace
	// is how long the kubelet may take from there to calling ListAndWatch.
	kubelet  os.FileInfo
	accepted time.Time
	grace    time.Duration
	// streams has the open streams to which a list was sent, each with the number of
	// its newest list. ended is when the last one ended.
	streams map[*stream]uint64
	ended   time.Time
	// over is closed to end the open streams.
	over chan struct{}
	// phase says whether the resource is withdrawn, and leaveBy until when the kubelet
	// may take to receive the empty list.
	phase      phase
	withdrawBy time.Time
}

// phase is how far the server has left. There is no way back from gone.
type phase int

const (
	advertising phase = iota
	withdrawing
	ended
)

// stream is one call of ListAndWatch.
type stream struct {
	// over is closed to end the call.
	over <-chan struct{}
}

func newRegistration(changed, wake func()) *registration {
	return &registration{
		changed: changed,
		wake:    wake,
		streams: map[*stream]uint64{},
		over:    make(chan struct{}),
	}
}

// now returns the Status.
func (r *registration) currentStatus() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// update changes the state under the lock, and calls changed if the Status changed.
func (r *registration) update(change func()) {
	r.mu.Lock()
	before := r.status
	change()
	differs := r.status != before
	r.mu.Unlock()
	if differs {
		r.changed()
	}
}

// serves records whether the socket accepts calls.
func (r *registration) setServing(serving bool) { r.update(func() { r.status.Serving = serving }) }

// accept records that the kubelet accepted the registration at its socket.
func (r *registration) setRegistered(kubelet os.FileInfo, at time.Time) (grace time.Duration) {
	r.update(func() {
		r.kubelet, r.accepted, r.status.Registered = kubelet, at, true
		grace = r.grace
	})
	return grace
}

// lose records that the kubelet does not know the resource any more.
func (r *registration) setUnregistered() { r.update(func() { r.status.Registered = false }) }

// stop records that the server has ended.
func (r *registration) stop() { r.update(func() { r.status = Status{} }) }

// due returns how long there is no need to register, given the kubelet's present
// socket. A kubelet that still holds a stream must not be asked again: it would keep
// the old stream beside the new one, and take the plugin for gone when either ends.
func (r *registration) timeToRegister(kubelet os.FileInfo) (wait time.Duration) {
	r.update(func() {
		if wait = r.timeToRegisterLocked(kubelet); wait > 0 {
			r.status.Registered = true
			return
		}
		r.status.Registered = false
	})
	return wait
}

// wait is due. It needs the lock.
func (r *registration) timeToRegisterLocked(kubelet os.FileInfo) time.Duration {
	if r.kubelet == nil || !sameSocket(r.kubelet, kubelet) {
		r.grace = listGrace
		return 0
	}
	if len(r.streams) > 0 {
		r.grace = listGrace
		return Recheck
	}
	wait := time.Until(r.accepted.Add(r.grace))
	if r.ended.After(r.accepted) {
		wait = time.Until(r.ended.Add(endGrace))
	}
	if wait <= 0 {
		r.grace = min(2*r.grace, listGraceMax)
	}
	return wait
}

// open returns a new stream.
func (r *registration) open() *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &stream{over: r.over}
}

// sent records that the list with a number was sent to a stream.
func (r *registration) recordSent(s *stream, number uint64) {
	r.update(func() {
		if _, known := r.streams[s]; !known || r.phase == withdrawing {
			r.wake()
		}
		r.streams[s] = number
		r.status.Listed = true
	})
}

// close records that a stream has ended.
func (r *registration) close(s *stream) {
	r.update(func() {
		if _, known := r.streams[s]; known {
			r.ended = time.Now()
		}
		delete(r.streams, s)
		r.status.Listed = len(r.streams) > 0
	})
	r.wake()
}

// endStreams ends the open streams.
func (r *registration) endStreams() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.over)
	r.over = make(chan struct{})
}

// stays reports whether the server stays.
func (r *registration) isAdvertising() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase == advertising
}

// leave makes the server end once the kubelet has received the newest list.
func (r *registration) withdraw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == advertising {
		r.phase, r.withdrawBy = withdrawing, time.Now().Add(receiveGrace)
		r.wake()
	}
}

// stay takes leave back. It returns false if the server is gone.
func (r *registration) cancelWithdrawal() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == withdrawing {
		r.phase = advertising
		r.wake()
	}
	return r.phase == advertising
}

// parting returns whether the server leaves, and how long it still waits for the
// kubelet to receive the list with a number. With a wait of 0 the server is gone.
func (r *registration) checkWithdrawal(number uint64) (wait time.Duration, leaves bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != withdrawing {
		return 0, false
	}
	wait = time.Until(r.withdrawBy)
	if wait <= 0 || r.received(number) {
		r.phase = ended
		return 0, true
	}
	return wait, true
}

// received reports whether the list with a number was sent to whoever knows the
// resource. It needs the lock.
func (r *registration) received(number uint64) bool {
	for _, newest := range r.streams {
		if newest < number {
			return false
		}
	}
	// A kubelet that has just accepted the registration is about to open a stream.
	return len(r.streams) > 0 || !r.status.Registered
}
