package pci

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/hostfs"
)

// patience bounds waits for what must happen; it is not a delay.
const patience = 5 * time.Minute

// want waits for a value.
func want(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("no %s within %s", what, patience)
	}
}

// heard is a listener of the kernel, or the test is skipped.
func heard(t *testing.T) *listener {
	t.Helper()
	l, err := listen()
	if err != nil {
		t.Skipf("this machine lets nobody hear uevents: %v", err)
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// announce lets the kernel report a device that is there, with "add" as if it
// came, as "udevadm trigger --action=add" does at each boot.
func announce(t *testing.T, action string, times int) {
	t.Helper()
	devices, err := filepath.Glob("/sys/bus/pci/devices/*/uevent")
	if err != nil || len(devices) == 0 {
		t.Skip("this machine has no PCI device to report")
	}
	for range times {
		if err := os.WriteFile(devices[0], []byte(action), 0); err != nil {
			t.Skipf("uevents can only be asked for by root on a writable sysfs: %v", err)
		}
	}
}

func TestListenerHearsTheKernel(t *testing.T) {
	l := heard(t)
	announce(t, "add", 3)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 3 {
		assert.NilError(t, l.wait(ctx, time.Time{}))
	}
}

func TestListenerTakesEventsTogether(t *testing.T) {
	l := heard(t)
	announce(t, "add", 50)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	assert.NilError(t, l.next(ctx, 500*time.Millisecond))
	assert.ErrorIs(t, control(t, l, func(fd int) error {
		for {
			n, _, err := unix.Recvfrom(fd, l.buf, unix.MSG_DONTWAIT)
			if err != nil {
				return err
			}
			if e, ok := parseUevent(l.buf[:n]); ok && e.counts() {
				return errors.New("another event")
			}
		}
	}), unix.EAGAIN)
}

// TestListenerReportsLoss has more events than the socket keeps. None of them
// counts, but one of those that were lost could have.
func TestListenerReportsLoss(t *testing.T) {
	l := heard(t)
	assert.NilError(t, control(t, l, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0) }))
	announce(t, "change", 50)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := l.wait(ctx, time.Time{}); err != nil {
		t.Fatalf("wait() = %v, want that something may have changed", err)
	}
	announce(t, "add", 1)
	if err := l.wait(ctx, time.Time{}); err != nil {
		t.Fatalf("wait() = %v after a loss", err)
	}
}

// control does something with the socket.
func control(t *testing.T, l *listener, do func(fd int) error) (err error) {
	t.Helper()
	conn, failed := l.socket.SyscallConn()
	assert.NilError(t, failed)
	assert.NilError(t, conn.Control(func(fd uintptr) { err = do(int(fd)) }))
	return err
}

// TestListenerBelievesTheKernelAlone sends what the kernel could have sent, to
// the listener only.
func TestListenerBelievesTheKernelAlone(t *testing.T) {
	l := heard(t)
	var port uint32
	assert.NilError(t, control(t, l, func(fd int) error {
		own, err := unix.Getsockname(fd)
		if err == nil {
			port = own.(*unix.SockaddrNetlink).Pid
		}
		return err
	}))
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	assert.NilError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port}
	if err := unix.Sendto(fd, kernelMessage("add@/forged", "ACTION=add", "SUBSYSTEM=pci"), 0, to); err != nil {
		t.Skipf("only who has CAP_NET_ADMIN can send such a message: %v", err)
	}
	announce(t, "add", 1)
	// Others of the machine's events may come first.
	for found := false; !found; {
		assert.NilError(t, l.socket.SetReadDeadline(time.Now().Add(patience)))
		message, err := l.receive()
		assert.NilError(t, err)
		if strings.HasPrefix(string(message), "add@/forged") {
			t.Fatal("receive() gives a message that the kernel has not sent")
		}
		e, ok := parseUevent(message)
		found = ok && e.counts()
	}
}

func TestListenerEndsWithItsContext(t *testing.T) {
	l := heard(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.next(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("next() = %v, want that its context has ended", err)
		}
	}()
	cancel()
	want(t, ended, "end")
}

func TestWatchHearsTheKernel(t *testing.T) {
	const sys = "/sys"
	if !errors.Is(hostfs.Watchable(devicesDir(sys)), hostfs.ErrUnwatchable) {
		t.Skip("/sys is no sysfs here")
	}
	heard(t)
	var text bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	changed, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		Watch(ctx, sys, slog.New(slog.NewTextHandler(&text, nil)), func() { changed <- struct{}{} })
	}()
	want(t, changed, "first call")
	announce(t, "add", 1)
	want(t, changed, "call after an event")
	cancel()
	want(t, ended, "end")
	if text.Len() != 0 {
		t.Errorf("it logs %s", text.String())
	}
}

func TestWatchWithoutUevents(t *testing.T) {
	var text bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	w := watch{
		changed: func() {
			if calls++; calls == 3 {
				cancel()
			}
		},
		log:  slog.New(slog.NewTextHandler(&text, nil)),
		poll: time.Millisecond,
	}
	tried := 0
	w.run(ctx, func(works func()) error {
		return w.uevents(ctx, func() (*listener, error) { tried++; return nil, errDeaf }, works)
	})
	if calls < 3 || tried < 3 {
		t.Errorf("changed was called %d times, and the socket opened %d times, want both again and again", calls, tried)
	}
	if got := text.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "hostUsers") {
		t.Errorf("it logs %q, want one warning with the cause", got)
	}
}

// TestWatchGoesOnWithoutSocket has a socket that breaks later.
func TestWatchGoesOnWithoutSocket(t *testing.T) {
	var text bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	broken := &listener{buf: make([]byte, messageSize)}
	var err error
	broken.socket, err = os.Open(os.DevNull)
	assert.NilError(t, err)
	calls := 0
	w := watch{
		changed: func() {
			if calls++; calls == 3 {
				cancel()
			}
		},
		log: slog.New(slog.NewTextHandler(&text, nil)), settle: time.Millisecond, poll: time.Millisecond,
	}
	w.run(ctx, func(works func()) error {
		return w.uevents(ctx, func() (*listener, error) { return broken, nil }, works)
	})
	if got := text.String(); calls < 3 || strings.Count(got, "level=WARN") != 1 {
		t.Errorf("changed was called %d times, and it logs %q", calls, got)
	}
}

// TestWatchTriesATreeAgain has no inotify instance at first, as if all of the user were in use.
func TestWatchTriesATreeAgain(t *testing.T) {
	var text bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	changed, ended := make(chan struct{}), make(chan struct{})
	w := watch{
		devices: filepath.Join(t.TempDir(), "devices"),
		changed: func() { changed <- struct{}{} },
		log:     slog.New(slog.NewTextHandler(&text, nil)), settle: time.Millisecond, poll: time.Millisecond,
	}
	failures := 2
	w.files = func(paths ...string) (*hostfs.Watcher, error) {
		if failures > 0 {
			failures--
			return nil, hostfs.InotifyError(unix.EMFILE)
		}
		return hostfs.NewWatcher(paths...)
	}
	go func() {
		defer close(ended)
		w.run(ctx, func(works func()) error { return w.tree(ctx, works) })
	}()
	for range 3 {
		want(t, changed, "call while the tree cannot be watched, and once it is")
	}
	assert.NilError(t, os.Mkdir(w.devices, 0o755))
	want(t, changed, "call after a change")
	cancel()
	for open := true; open; {
		select {
		case <-changed:
		case <-ended:
			open = false
		case <-time.After(patience):
			t.Fatal("it does not end with its context")
		}
	}
	if got := text.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "max_user_instances") {
		t.Errorf("it logs %q, want one warning with the fix", got)
	}
}
