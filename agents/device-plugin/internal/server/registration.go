package server

import (
	"os"
	"sync"
	"time"
)

const (
	// listGrace is how long the kubelet may take from a registration to the call of
	// ListAndWatch. After that, the plugin registers again. It doubles up to listGraceMax.
	listGrace    = 5 * time.Second
	listGraceMax = time.Minute
	// endGrace is how long the kubelet needs to clean up after the end of a stream. The clean-up
	// undoes registrations that the kubelet accepts until then.
	endGrace = 2 * time.Second
	// receiveGrace is how long the kubelet may take to receive the empty list of a withdrawn
	// resource. After that, the plugin ends the stream, which also withdraws the resource.
	receiveGrace = 2 * time.Second
)

// Status is the progress of serving and registering the resource.
type Status struct {
	// Serving is set while the socket accepts calls.
	Serving bool
	// Registered is set while the kubelet's present socket is the same that accepted the
	// registration.
	Registered bool
	// Listed is set while the kubelet has an open stream and has got the devices.
	Listed bool
}

// registration has the state of the resource at the kubelet. The keeper, the streams and the
// callers of Publish and Withdraw change it only through its methods. It does no I/O, and is
// safe for concurrent use.
type registration struct {
	// changed is called after the Status changed, without the lock.
	changed func()
	// wake is called when the keeper has something to do. It does not block.
	wake func()

	mu     sync.Mutex
	status Status
	// kubelet is the socket that accepted the last registration, and accepted is the time.
	// grace is how long the kubelet may take from then to the call of ListAndWatch.
	kubelet  os.FileInfo
	accepted time.Time
	grace    time.Duration
	// streams has the open streams that got a list, with the number of their newest list.
	// ended is the time when such a stream last ended.
	streams map[*stream]uint64
	ended   time.Time
	// over is closed to end the open streams.
	over chan struct{}
	// phase is the phase of the withdrawal. withdrawBy is the deadline for the kubelet to
	// receive the empty list.
	phase      phase
	withdrawBy time.Time
}

// phase is the phase of the withdrawal of a resource. A withdrawal can be canceled before it
// has ended.
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

// currentStatus returns the Status.
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

// setServing records whether the socket accepts calls.
func (r *registration) setServing(serving bool) { r.update(func() { r.status.Serving = serving }) }

// setRegistered records that the kubelet accepted the registration at its socket.
func (r *registration) setRegistered(kubelet os.FileInfo, at time.Time) (grace time.Duration) {
	r.update(func() {
		r.kubelet, r.accepted, r.status.Registered = kubelet, at, true
		grace = r.grace
	})
	return grace
}

// setUnregistered records that the kubelet no longer knows the resource.
func (r *registration) setUnregistered() { r.update(func() { r.status.Registered = false }) }

// stop records that the server has ended.
func (r *registration) stop() { r.update(func() { r.status = Status{} }) }

// timeToRegister returns the duration until the plugin has to register, given the kubelet's
// present socket. The plugin must not register while the kubelet has an open stream: the
// kubelet would keep both streams, and disconnect the plugin when either ends.
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

// timeToRegisterLocked is timeToRegister for a caller that holds the lock.
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

// recordSent records that the list with this number was sent to a stream.
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

// isAdvertising reports whether the resource is advertised, and not withdrawn.
func (r *registration) isAdvertising() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase == advertising
}

// withdraw makes the server end once the kubelet has received the newest list.
func (r *registration) withdraw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == advertising {
		r.phase, r.withdrawBy = withdrawing, time.Now().Add(receiveGrace)
		r.wake()
	}
}

// cancelWithdrawal cancels a withdrawal. It returns false if the withdrawal has ended.
func (r *registration) cancelWithdrawal() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == withdrawing {
		r.phase = advertising
		r.wake()
	}
	return r.phase == advertising
}

// checkWithdrawal returns whether the resource is being withdrawn, and how long to wait until
// the kubelet has received the list with this number. With a wait of 0, the withdrawal has
// ended.
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

// received reports whether the list with this number was sent to all streams. Without a stream,
// it reports whether the kubelet does not know the resource. It needs the lock.
func (r *registration) received(number uint64) bool {
	for _, newest := range r.streams {
		if newest < number {
			return false
		}
	}
	// A kubelet that has just accepted a registration will open a stream.
	return len(r.streams) > 0 || !r.status.Registered
}
