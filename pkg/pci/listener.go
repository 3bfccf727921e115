package pci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// kernelGroup is the multicast group of the kernel's uevents. udev sends its processed uevents
	// to another group.
	kernelGroup = 1
	// messageSize is larger than any uevent: its variables take up to 2 KiB (UEVENT_BUFFER_SIZE in
	// linux/kobject.h), and it contains the path twice.
	messageSize = 16 << 10
	// uidMap is a file that shows the user namespace of this process.
	uidMap = "/proc/self/uid_map"
)

// errDeaf is returned if the kernel would not send uevents to this process.
var errDeaf = errors.New("the kernel sends uevents of devices only to the host's user namespace (hostUsers: true)")

// listener receives the kernel's uevents. It needs no privileges.
type listener struct {
	socket *os.File
	buf    []byte
}

// listen opens the socket. The kernel sends uevents of devices without a network namespace, such as
// PCI devices, to all network namespaces that the initial user namespace owns, including the
// network namespace of a pod. Before Linux 4.18 it sent them to all network namespaces (commit
// a3498436b3a0, "netns: restrict uevents"). In another user namespace the socket opens but receives
// nothing.
func listen() (*listener, error) {
	if text, err := os.ReadFile(uidMap); err == nil && !initialUsers(string(text)) {
		return nil, errDeaf
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open socket for uevents: %w: allow AF_NETLINK in the seccomp profile", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind socket for uevents: %w", err), unix.Close(fd))
	}
	// The runtime's poller wakes a read for data and for its deadline.
	return &listener{socket: os.NewFile(uintptr(fd), "uevents"), buf: make([]byte, messageSize)}, nil
}

// initialUsers reports whether uidMap is from the initial user namespace, which maps every ID to
// itself (user_namespaces(7)).
func initialUsers(uidMap string) bool {
	return strings.Join(strings.Fields(uidMap), " ") == "0 0 4294967295"
}

func (l *listener) close() error { return l.socket.Close() }

// next waits for an event that counts (see uevent.counts), and then receives all events for the time
// settle, because a rescan of the bus causes many.
func (l *listener) next(ctx context.Context, settle time.Duration) error {
	err := l.wait(ctx, time.Time{})
	for last := time.Now().Add(settle); err == nil; {
		err = l.wait(ctx, last)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// wait returns nil after an event that counts.
func (l *listener) wait(ctx context.Context, deadline time.Time) error {
	stop := context.AfterFunc(ctx, func() { _ = l.socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := l.socket.SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("receive uevent: %w", err)
	}
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		message, err := l.receive()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			return l.drain(ctx) // messages were lost, and one of them may have counted
		case err != nil:
			return fmt.Errorf("receive uevent: %w", err)
		}
		if e, ok := parseUevent(message); ok && e.counts() {
			return nil
		}
	}
}

// drain receives the messages that are left in the socket. After the kernel has reported a lost
// message, it loses further ones silently until the socket is empty.
func (l *listener) drain(ctx context.Context) error {
	conn, err := l.socket.SyscallConn()
	if err != nil {
		return err
	}
	err = conn.Control(func(fd uintptr) {
		var failed error
		for more := true; more && ctx.Err() == nil; more = failed == nil || errors.Is(failed, unix.ENOBUFS) || errors.Is(failed, unix.EINTR) {
			_, _, failed = unix.Recvfrom(int(fd), l.buf, unix.MSG_DONTWAIT)
		}
	})
	return cmp.Or(err, ctx.Err())
}

// receive returns the next message from the kernel.
func (l *listener) receive() ([]byte, error) {
	conn, err := l.socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	for {
		var n int
		var from unix.Sockaddr
		var failed error
		err := conn.Read(func(fd uintptr) bool {
			failed = unix.EINTR
			for errors.Is(failed, unix.EINTR) {
				n, from, failed = unix.Recvfrom(int(fd), l.buf, 0)
			}
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err := cmp.Or(err, failed); err != nil {
			return nil, err
		}
		// Only messages from the kernel have port 0. A privileged process could also send to this
		// socket.
		if sender, ok := from.(*unix.SockaddrNetlink); ok && sender.Pid == 0 {
			return l.buf[:n], nil
		}
	}
}
