// Package kernel simulates a kernel that loads modules. For the programs that run on it, it handles
// the system calls for modules, and provides the devices of a loaded driver. The machine's kernel
// handles all other system calls. Package kernel receives the system calls by seccomp's user
// notification (seccomp_unotify(2)).
package kernel

import (
	"fmt"
	"os"
	"runtime"
	"unsafe" // seccomp(2) takes the address of a program

	"golang.org/x/sys/unix"

	"outrigger.dev/sim/internal/arch"
)

// deviceFlags are the flags of programs that open a device to check whether a driver answers.
// Few programs use them for other files.
const deviceFlags = unix.O_RDWR | unix.O_CLOEXEC | unix.O_NONBLOCK

// Offsets in struct seccomp_data.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
	argSize  = 8
)

// filter returns a filter that reports the system calls for modules, and openat with deviceFlags.
func filter() []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	return []unix.SockFilter{
		0: load(atArch),
		1: equal(arch.Audit, 0, 6), // to 8
		2: load(atNumber),
		3: equal(unix.SYS_FINIT_MODULE, 5, 0), // to 9
		4: equal(unix.SYS_DELETE_MODULE, 4, 0),
		5: equal(unix.SYS_OPENAT, 0, 2), // to 8
		6: load(atArgs + 2*argSize),
		7: equal(deviceFlags, 1, 0), // to 9
		8: answer(unix.SECCOMP_RET_ALLOW),
		9: answer(unix.SECCOMP_RET_USER_NOTIF),
	}
}

// Attach runs the calling thread on the simulated kernel, together with the programs that it
// executes and the processes that it forks afterwards. It returns the listener for Serve. The
// calling goroutine stays locked to its thread.
func Attach() (*os.File, error) {
	runtime.LockOSThread()
	code := filter()
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]} //nolint:gosec // ten
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return nil, fmt.Errorf("attach the simulated kernel by a seccomp filter, which needs root and Linux 5.14: %w", errno)
	}
	return os.NewFile(fd, "seccomp"), nil
}
