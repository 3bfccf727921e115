//go:build amd64

package arch

import (
	"debug/elf"

	"golang.org/x/sys/unix"
)

const (
	// Kernel is the name of the architecture that uname -m prints.
	Kernel = "x86_64"
	// Machine is the architecture of ELF files.
	Machine = elf.EM_X86_64
	// Audit is the architecture of system calls in seccomp filters.
	Audit = unix.AUDIT_ARCH_X86_64
)
