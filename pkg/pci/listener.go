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
	// kernelGroup is the multicast group of the kernel's own uevents. udev sends its
	// processed ones to another group.
	kernelGroup = 1
	// messageSize is more than a uevent can have: its variables take up to 2 KiB
	// (UEVENT_BUFFER_SIZE in linux/kobject.h), and it has the path twice.
	messageSize = 16 << 10
	// uidMap shows which user namespace this process is in.
	uidMap = "/proc/self/uid_map"
)

// errDeaf is returned if the kernel would send nothing.
var errDeaf = errors.New("the kernel sends uevents of devices only to the host's user namespace (hostUsers: true)")

// listener receives the kernel's uevents, which takes no privileges.
type listener struct {
	socket *os.File
	buf    []byte
}

// listen opens the socket. The kernel sends uevents of devices without a network
// namespace, such as PCI devices, to all network namespaces that the initial user
// namespace owns, so also to that of a pod; before Linux 4.18 to all (commit a3498436b3a0, "netns: restrict uevents"). In another user
// namespace the socket opens and stays silent.
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

// initialUsers reports whether a uid_map is that of the initial user namespace:
// all ids, each as itself (user_namespaces(7)).
func initialUsers(uidMap string) bool {
	return strings.Join(strings.Fields(uidMap), " ") == "0 0 4294967295"
}

func (l *listener) close() error { return l.socket.Close() }

// next waits for an event that counts, and then receives those that follow within settle:
// a rescan of the bus causes many.
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

// wait returns nil when an event counts.
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

// drain receives what the socket still has. After the kernel reported a lost message, it
// loses further ones silently until the socket is empty.
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

// receive returns the next message that comes from the kernel.
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
		// Only the kernel has port 0; a privileged process could send here too.
		if sender, ok := from.(*unix.SockaddrNetlink); ok && sender.Pid == 0 {
			return l.buf[:n], nil
		}
	}
}
