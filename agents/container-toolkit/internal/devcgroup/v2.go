package devcgroup

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// attempts limits how often the programs of a cgroup are read again because another process, such
// as systemd, replaced one at the same time.
const attempts = 5

// license is the license of the loaded programs. They call no function that needs the GPL.
const license = "Apache-2.0"

// allowByProgram replaces each program that decides about the devices of a cgroup. A cgroup without
// a program allows every device.
func allowByProgram(dir string, devices []Device) error {
	cgroup, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer cgroup.Close()
	// Kernels before 5.11 count programs as locked memory. Later kernels ignore the limit. If this
	// fails on an earlier kernel, loading the program fails with a clear error.
	_ = unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	r := replacer{cgroup: cgroup, devices: devices, extended: map[ebpf.ProgramID]bool{}}
	for range attempts {
		if err = r.replaceAll(); !programsChanged(err) {
			return err
		}
	}
	return fmt.Errorf("%w (its programs change all the time, or one is attached as a link, which only its owner can replace)", err)
}

// programsChanged reports whether an error means that the programs changed after they were read.
func programsChanged(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOSPC)
}

// replacer replaces the programs of one cgroup by programs that allow more devices.
type replacer struct {
	cgroup  *os.File
	devices []Device
	// extended has the programs that already allow the devices.
	extended map[ebpf.ProgramID]bool
}

func (r *replacer) replaceAll() error {
	attached, err := link.QueryPrograms(link.QueryOptions{Target: int(r.cgroup.Fd()), Attach: ebpf.AttachCGroupDevice})
	if err != nil {
		return fmt.Errorf("read the attached programs: %w", err)
	}
	for _, a := range attached.Programs {
		if r.extended[a.ID] {
			continue
		}
		if err := r.replace(a.ID); err != nil {
			return fmt.Errorf("extend program %d: %w", a.ID, err)
		}
	}
	return nil
}

// replace replaces an attached program by its extension. The replacement is atomic, so the cgroup
// always has a program.
func (r *replacer) replace(id ebpf.ProgramID) error {
	old, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return err
	}
	defer old.Close() //nolint:errcheck // nothing was written
	instructions, err := readInstructions(old)
	if err != nil {
		return err
	}
	if instructions, err = extend(instructions, r.devices); err != nil {
		return err
	}
	extended, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "outrigger_dev", Type: ebpf.CGroupDevice, Instructions: instructions, License: license,
	})
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	defer extended.Close() //nolint:errcheck // the cgroup keeps the program
	if err := attach(r.cgroup, old, extended); err != nil {
		return err
	}
	info, err := extended.Info()
	if err != nil {
		return err
	}
	if id, ok := info.ID(); ok {
		r.extended[id] = true
	}
	return nil
}

func readInstructions(p *ebpf.Program) (asm.Instructions, error) {
	info, err := p.Info()
	if err != nil {
		return nil, err
	}
	instructions, err := info.Instructions()
	if err != nil {
		return nil, fmt.Errorf("read instructions (this needs CAP_SYS_ADMIN or CAP_BPF and CAP_PERFMON, and net.core.bpf_jit_harden or kernel.kptr_restrict below 2): %w", err)
	}
	return instructions, nil
}

// attach replaces old by extended. The kernel requires the flags that were used to attach old, but
// does not report them. Container runtimes and systemd use BPF_F_ALLOW_MULTI.
func attach(cgroup *os.File, old, extended *ebpf.Program) error {
	options := link.RawAttachProgramOptions{
		Target: int(cgroup.Fd()), Program: extended, Attach: ebpf.AttachCGroupDevice,
		Flags: unix.BPF_F_ALLOW_MULTI, Anchor: link.ReplaceProgram(old),
	}
	err := link.RawAttachProgram(options)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	// Without BPF_F_ALLOW_MULTI, a cgroup has one program, and the new program replaces it.
	options.Anchor = nil
	for _, options.Flags = range []uint32{unix.BPF_F_ALLOW_OVERRIDE, 0} {
		if err = link.RawAttachProgram(options); !errors.Is(err, unix.EPERM) {
			return err
		}
	}
	return err
}
