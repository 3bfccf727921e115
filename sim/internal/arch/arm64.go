//go:build arm64

package arch

import (
	"debug/elf"

	"golang.org/x/sys/unix"
)

const (
	// Kernel is the name of the architecture that uname -m prints.
	Kernel = "aarch64"
	// Machine is the architecture of ELF files.
	Machine = elf.EM_AARCH64
	// Audit is the architecture of system calls in seccomp filters.
	Audit = unix.AUDIT_ARCH_AARCH64
)
