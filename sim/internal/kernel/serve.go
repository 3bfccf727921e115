package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe" // ioctl(2) takes the addresses of structs

	"golang.org/x/sys/unix"

	"outrigger.dev/sim/internal/kmod"
)

// Node has the modules and devices of the kernel. A unix.Errno that its methods return is the error
// of the system call.
type Node interface {
	LoadModule(m kmod.Module, params []string) error
	UnloadModule(name string) error
	// Served reports whether a driver serves the device at a path.
	Served(path string) bool
}

// notification is struct seccomp_notif.
type notification struct {
	ID    uint64
	PID   uint32
	Flags uint32
	// The fields of struct seccomp_data.
	Number             int32
	Arch               uint32
	InstructionPointer uint64
	Args               [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	ID    uint64
	Value int64
	Error int32
	Flags uint32
}

// addition is struct seccomp_notif_addfd.
type addition struct {
	ID                       uint64
	Flags, From, To, ToFlags uint32
}

// The ioctl requests of a listener, and their flags, from linux/seccomp.h.
const (
	receive = 0xc0502100
	send    = 0xc0182101
	idValid = 0x40082102
	addFile = 0x40182103

	flagContinue = 1
	flagSend     = 2
)

// Limits for the input of programs.
const (
	maxPath   = 4096
	maxModule = 256 << 20
)

// Serve answers the programs on the simulated kernel until the last one has ended. It prints errors
// to log.
func Serve(listener *os.File, node Node, log io.Writer) error {
	defer listener.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	s := server{fd: listener.Fd(), node: node, null: null, log: log}
	for {
		var n notification
		err := ioctl(s.fd, receive, unsafe.Pointer(&n))
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOENT):
			// The program was killed, or the last program has ended.
			if s.noPrograms() {
				return nil
			}
		case err != nil:
			return fmt.Errorf("wait for a system call: %w", err)
		default:
			s.answer(n)
		}
	}
}

type server struct {
	fd   uintptr
	node Node
	null *os.File
	log  io.Writer
}

// noPrograms reports whether the last program has ended.
func (s server) noPrograms() bool {
	poll := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}} //nolint:gosec // a small number
	_, err := unix.Poll(poll, 0)
	return err == nil && poll[0].Revents&unix.POLLHUP != 0
}

func ioctl(fd, request uintptr, data unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(data)); errno != 0 {
		return errno
	}
	return nil
}

// answer handles one system call. It ignores errors of the reply, because the program may have been
// killed.
func (s server) answer(n notification) {
	r := response{ID: n.ID}
	var err error
	switch n.Number {
	case unix.SYS_FINIT_MODULE:
		err = s.load(n)
	case unix.SYS_DELETE_MODULE:
		err = s.unload(n)
	default:
		if s.opens(n) {
			add := addition{ID: n.ID, Flags: flagSend, From: uint32(s.null.Fd()), ToFlags: unix.O_CLOEXEC} //nolint:gosec // a small number
			_ = ioctl(s.fd, addFile, unsafe.Pointer(&add))
			return
		}
		r.Flags = flagContinue
	}
	if err != nil {
		errno, is := errors.AsType[unix.Errno](err)
		if !is {
			fmt.Fprintf(s.log, "process %d: %v\n", n.PID, err)
			errno = unix.EIO
		}
		r.Error = -int32(errno) //nolint:gosec // a small number
	}
	_ = ioctl(s.fd, send, unsafe.Pointer(&r))
}

// load handles finit_module(fd, parameters, flags).
func (s server) load(n notification) error {
	file, err := readFile(fmt.Sprintf("/proc/%d/fd/%d", n.PID, int32(n.Args[0]))) //nolint:gosec // the program passes an int
	if err != nil {
		return err
	}
	params, err := s.readString(n, n.Args[1])
	if err != nil {
		return err
	}
	m, err := kmod.Parse(file)
	if err != nil {
		fmt.Fprintln(s.log, err)
		return unix.ENOEXEC
	}
	return s.node.LoadModule(m, strings.Fields(params))
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unix.EBADF
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxModule))
}

// unload handles delete_module(name, flags).
func (s server) unload(n notification) error {
	name, err := s.readString(n, n.Args[0])
	if err != nil {
		return err
	}
	if name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return unix.ENOENT
	}
	return s.node.UnloadModule(name)
}

// opens reports whether openat opens a device that a driver serves.
func (s server) opens(n notification) bool {
	path, err := s.readString(n, n.Args[1])
	if err != nil || !s.node.Served(path) {
		return false
	}
	_, err = os.Stat(filepath.Join("/proc", strconv.Itoa(int(n.PID)), "root", path))
	return err == nil
}

// readString reads a string from the memory of a program.
func (s server) readString(n notification, at uint64) (string, error) {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", n.PID))
	if err != nil {
		return "", unix.EFAULT
	}
	defer mem.Close()
	text := make([]byte, maxPath)
	got, err := mem.ReadAt(text, int64(at)) //nolint:gosec // an address
	if got == 0 {
		return "", errors.Join(unix.EFAULT, err)
	}
	end := bytes.IndexByte(text[:got], 0)
	// If the ID is still valid here, the PID belonged to the program while its memory was read.
	if end < 0 || ioctl(s.fd, idValid, unsafe.Pointer(&n.ID)) != nil {
		return "", unix.EFAULT
	}
	return string(text[:end]), nil
}
