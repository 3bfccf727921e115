package podresources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Class is the kind of a failure, for a label of a metric.
type Class string

// The classes of failures.
const (
	// ClassMissing means that no process listens on the socket.
	ClassMissing Class = "missing"
	// ClassDenied means that this process has no permission to connect to the socket.
	ClassDenied Class = "denied"
	// ClassTimeout means that the kubelet does not answer, or not completely, in time.
	ClassTimeout Class = "timeout"
	// ClassTooLarge means that the answer is larger than Config.Most, or has more users of devices
	// than Config.MostUses.
	ClassTooLarge Class = "too_large"
	// ClassInvalid means that the server is not a kubelet, or stops in the middle of an answer.
	ClassInvalid Class = "invalid"
	// ClassRejected means that the kubelet rejects the request.
	ClassRejected Class = "rejected"
)

// Classes returns all classes.
func Classes() []Class {
	return []Class{ClassMissing, ClassDenied, ClassTimeout, ClassTooLarge, ClassInvalid, ClassRejected}
}

// fix returns the fix for a failure.
func (c Class) fix() string {
	switch c {
	case ClassMissing:
		return "wait until the kubelet runs; if it does, mount its folder pod-resources, not the socket, which is replaced when the kubelet restarts"
	case ClassDenied:
		return "run as user 0, which needs no capability, and let SELinux allow it to connect to the kubelet's socket"
	case ClassTimeout:
		return "check the load of the node, and look for errors of PodResources in the log of the kubelet"
	case ClassTooLarge:
		return "find the device plugin that lists so many devices, for example because of too many replicas"
	case ClassInvalid:
		return "check that it is the socket of the kubelet's PodResources API v1"
	default:
		return "check the version of the kubelet, at least 1.20, and its log"
	}
}

// Error is a failed request to the kubelet.
type Error struct {
	Class  Class
	Socket string
	Err    error
}

// Error returns the socket, the cause and the fix.
func (e *Error) Error() string {
	return fmt.Sprintf("ask the kubelet at %s for the devices of pods: %v: %s", e.Socket, e.Err, e.Class.fix())
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (c *Client) classify(err error) *Error {
	failed := &Error{Class: ClassRejected, Socket: c.cfg.Socket, Err: err}
	switch {
	case errors.Is(err, errUses):
		failed.Class = ClassTooLarge
		return failed
	case errors.Is(err, errInvalid):
		failed.Class = ClassInvalid
		return failed
	}
	if dialed := c.dialed.Load(); dialed != nil && status.Code(err) == codes.Unavailable {
		// gRPC has converted this error to text.
		failed.Class, failed.Err = classOfDial(*dialed), *dialed
		if op, ok := errors.AsType[*net.OpError](*dialed); ok {
			failed.Err = op.Err // without the socket
		}
		return failed
	}
	s := status.Convert(err)
	failed.Err = errors.New(s.Message())
	switch s.Code() {
	case codes.DeadlineExceeded:
		failed.Class, failed.Err = ClassTimeout, fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	case codes.Unavailable, codes.Internal:
		failed.Class = ClassInvalid
	case codes.ResourceExhausted:
		// The kubelet also uses this code for requests that are too frequent.
		if strings.Contains(s.Message(), "larger than max") || strings.Contains(s.Message(), "too large") {
			failed.Class = ClassTooLarge
		}
	default:
	}
	return failed
}

func classOfDial(err error) Class {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return ClassDenied
	case errors.Is(err, syscall.EAGAIN): // the kubelet accepts no connections
		return ClassTimeout
	case errors.Is(err, syscall.EPROTOTYPE): // a socket for datagrams
		return ClassInvalid
	default:
		return ClassMissing
	}
}
