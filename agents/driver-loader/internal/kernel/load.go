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

// Syscalls loads and unloads modules of the running kernel. If the kernel rejects a call, the error
// wraps a cause.Cause.
type Syscalls struct {
	// Root has the kernel's log, settings and modules, which explain errors.
	Root Root
}

// Load loads a module with parameters in the form "name=value". It returns after the module has
// initialized. For a GPU driver, this takes seconds and cannot be interrupted.
func (s Syscalls) Load(ctx context.Context, m *module.Module, params []string) error {
	args, err := arguments(m.Name, params)
	if err != nil {
		return err
	}
	// The kernel needs a file, to apply its policies for module files. Use a file in memory with the
	// checked content, because a file on the disk may have changed.
	f, err := memoryFile(m)
	if err != nil {
		return err
	}
	defer f.Close()
	// Lock the thread, because the kernel's log records the thread of each line.
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

// Unload unloads a module by name. It does not wait for users of the module.
func (s Syscalls) Unload(name string) error {
	if err := unix.DeleteModule(name, unix.O_NONBLOCK); err != nil {
		m, _ := loaded(s.Root, name)
		m.Name = name
		return unloadCause(m, err)
	}
	return nil
}

var parameter = regexp.MustCompile(`^[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(=|$)`)

// arguments joins parameters in the form that the kernel parses: separated by spaces, with double
// quotes around values with spaces.
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

// memoryFile returns a file in memory that has a module and cannot be changed.
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

// policy has the kernel's settings for modules.
type policy struct {
	// lockdown and enforced require signatures. closed disables the loading of modules.
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
