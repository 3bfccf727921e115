package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/pkg/cause"
)

// Syscalls loads and unloads modules of the running kernel. What the kernel rejects is a
// cause.Cause, which errors.As finds.
type Syscalls struct {
	// Root is where the log of the kernel, its settings and its modules are, for the causes.
	Root Root
}

// Load loads a module with parameters in the form "name=value". It returns when the module
// has initialized, which for a driver of GPUs takes seconds and cannot be interrupted.
func (s Syscalls) Load(ctx context.Context, m *module.Module, params []string) error {
	args, err := arguments(m.Name, params)
	if err != nil {
		return err
	}
	// The kernel reads from a file, so that it can apply its policies for files of modules.
	// This one is in memory and has what was checked: a file on the disk may have changed.
	f, err := memoryFile(m)
	if err != nil {
		return err
	}
	defer f.Close()
	// The log tells which thread a line is from.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	log := openLog(s.Root)
	defer log.close()
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("load module %s: %w", m.Name, err)
		}
		err := unix.FinitModule(int(f.Fd()), args, 0)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return loadCause(m.Name, err, s.policy(), explanation(log.since(), m.Name, unix.Gettid()))
		}
	}
}

// Unload unloads a module by its name. It does not wait until nothing uses the module.
func (s Syscalls) Unload(name string) error {
	if err := unix.DeleteModule(name, unix.O_NONBLOCK); err != nil {
		m, _ := loaded(s.Root, name)
		m.Name = name
		return unloadCause(m, err)
	}
	return nil
}

var parameter = regexp.MustCompile(`^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(=|$)`)

// arguments joins parameters for the kernel, which splits them at spaces outside of
// double quotes.
func arguments(name string, params []string) (string, error) {
	var out []string
	for _, param := range params {
		key, value, _ := strings.Cut(param, "=")
		if !parameter.MatchString(param) || key == "--" || strings.ContainsAny(value, "\x00\n\"") {
			return "", cause.Cause{
				Code: cause.ModuleParameterInvalid, Subject: "module " + name, Text: fmt.Sprintf("the parameter %q cannot be passed to the kernel", param),
				Fix: "write it as name=value, without quotes and line breaks",
			}
		}
		if strings.ContainsAny(value, " \t") {
			param = key + `="` + value + `"`
		}
		out = append(out, param)
	}
	return strings.Join(out, " "), nil
}

// memoryFile returns a file in memory with a module, which nobody can change any more.
func memoryFile(m *module.Module) (*os.File, error) {
	fd, err := unix.MemfdCreate(m.Name+".ko", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("load module %s: make a file in memory: %w", m.Name, err)
	}
	f := os.NewFile(uintptr(fd), m.Name+".ko")
	if _, err = f.Write(m.Data); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("load module %s: write it to memory: %w", m.Name, err)
	}
	return f, nil
}

// policy is what the kernel's settings say about modules.
type policy struct {
	// lockdown and enforced demand signatures. closed means that no more modules are taken.
	lockdown, enforced, closed bool
}

func (s Syscalls) policy() policy {
	mode := bracketed(readValueOr(s.Root.sys("kernel/security/lockdown"), ""))
	return policy{
		lockdown: mode != "" && mode != "none",
		enforced: readValueOr(s.Root.sys("module/module/parameters/sig_enforce"), "N") == "Y",
		closed:   readValueOr(s.Root.proc("sys/kernel/modules_disabled"), "0") == "1",
	}
}
