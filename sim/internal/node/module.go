package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/sim/internal/kmod"
	"outrigger.dev/sim/internal/state"
)

// coreModule is the main module of the driver. It binds the GPUs.
const coreModule = "nvidia"

// LoadModule simulates the kernel's loading of a module with parameters. It fails with the kernel's
// error numbers, or shows the module in /sys/module. The module nvidia binds the GPUs: NVML works
// for programs that find the state in the kernel's firmware folder. Unlike SetDriver, LoadModule
// makes no device nodes and no files.
func (n *Node) LoadModule(m kmod.Module, params []string) error {
	return n.withLock(func() error {
		release, err := Release()
		if err != nil {
			return err
		}
		if got, _, _ := strings.Cut(m.Vermagic, " "); got != release {
			return unix.ENOEXEC
		}
		if n.hasModule(m.Name) {
			return unix.EEXIST
		}
		for _, d := range m.Depends {
			if !n.hasModule(d) {
				return unix.ENOENT // an unknown symbol
			}
		}
		values, fails := parseParams(m, params)
		if fails != 0 {
			return fails
		}
		if m.Name == coreModule {
			if err := n.takeGPUs(m.Version); err != nil {
				return err
			}
		}
		return n.showModule(m, values)
	})
}

// Release returns the release of the machine's kernel. The simulated kernel has the same release.
func Release() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("read the kernel's release: %w", err)
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// parseParams returns the parameters that the module knows, and the error of its
// initialization. Like the kernel, it ignores unknown parameters.
func parseParams(m kmod.Module, params []string) (map[string]string, unix.Errno) {
	values, fails := map[string]string{}, m.Fails
	for _, p := range params {
		name, value, _ := strings.Cut(p, "=")
		if _, has := m.Params[name]; !has {
			continue
		}
		values[name] = value
		if name == "sim_init_errno" {
			if number, err := strconv.Atoi(value); err == nil {
				fails = unix.Errno(number)
			}
		}
	}
	return values, fails
}

// UnloadModule simulates the kernel's removal of a module. It fails if the module is in use.
func (n *Node) UnloadModule(name string) error {
	return n.withLock(func() error {
		if !n.hasModule(name) {
			return unix.ENOENT
		}
		holders, err := os.ReadDir(n.module(name, "holders"))
		if err != nil {
			return err
		}
		if len(holders) > 0 {
			return unix.EWOULDBLOCK
		}
		if name == coreModule {
			if err := n.freeGPUs(); err != nil {
				return err
			}
		}
		return n.hideModule(name)
	})
}

func (n *Node) module(name string, elem ...string) string {
	return n.path(append([]string{modulesDir, name}, elem...)...)
}

func (n *Node) hasModule(name string) bool {
	_, err := os.Lstat(n.module(name, "initstate"))
	return err == nil
}

// showModule makes the complete folder of a module appear.
func (n *Node) showModule(m kmod.Module, params map[string]string) (err error) {
	stage, err := os.MkdirTemp(n.path(stageDir), "new-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	files := map[string]string{"initstate": "live", "refcnt": "0", "version": m.Version, "srcversion": m.SrcVersion, "taint": m.Taint(), "coresize": "65536"}
	for name, value := range params {
		files[filepath.Join("parameters", name)] = value
	}
	dir := filepath.Join(stage, m.Name)
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "holders"), 0o755), os.MkdirAll(filepath.Join(dir, "parameters"), 0o755)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]+"\n"), 0o444); err != nil { //nolint:gosec // as in sysfs
			return err
		}
	}
	if err := errors.Join(os.Chmod(stage, 0o755), os.Rename(dir, n.module(m.Name))); err != nil { //nolint:gosec // as in sysfs
		return err
	}
	for _, d := range m.Depends {
		if err := errors.Join(os.Mkdir(n.module(d, "holders", m.Name), 0o755), n.countHolders(d)); err != nil {
			return err
		}
	}
	return nil
}

// hideModule removes the folder of a module, and removes the module from the holders of others.
func (n *Node) hideModule(name string) error {
	if err := os.RemoveAll(n.module(name)); err != nil {
		return err
	}
	all, err := os.ReadDir(n.path(modulesDir))
	if err != nil {
		return err
	}
	for _, e := range all {
		err := os.Remove(n.module(e.Name(), "holders", name))
		if err == nil {
			err = n.countHolders(e.Name())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
	return nil
}

// countHolders updates the reference count of a module from its holders.
func (n *Node) countHolders(name string) error {
	holders, err := os.ReadDir(n.module(name, "holders"))
	if err != nil {
		return err
	}
	return os.WriteFile(n.module(name, "refcnt"), []byte(strconv.Itoa(len(holders))+"\n"), 0o444) //nolint:gosec // as in sysfs
}

// takeGPUs simulates the initialization of the module nvidia.
func (n *Node) takeGPUs(version string) error {
	if err := n.state.SetDriverVersion(version); err != nil {
		return err
	}
	snap := n.state.Show()
	devices, err := n.devices()
	if err != nil {
		return err
	}
	err = n.install(moduleSteps(snap))
	if err == nil {
		err = n.showDevices(devices, true)
	}
	if err == nil {
		err = n.bindState(version)
	}
	if err == nil {
		err = n.state.SetDriver(true)
	}
	if err != nil {
		return errors.Join(err, n.releaseGPUs(snap, devices))
	}
	return nil
}

// freeGPUs undoes takeGPUs. It fails if a program uses a GPU.
func (n *Node) freeGPUs() error {
	snap := n.state.Show()
	for _, g := range snap.GPUs {
		used, err := n.state.InUse(g.Slot, state.WholeGPU, state.WholeGPU)
		if err != nil {
			return err
		}
		if used {
			return unix.EWOULDBLOCK
		}
	}
	devices, err := n.devices()
	if err != nil {
		return err
	}
	return n.releaseGPUs(snap, devices)
}

func (n *Node) releaseGPUs(snap state.Snapshot, devices procDevices) error {
	return errors.Join(n.state.SetDriver(false), n.showDevices(devices, false), n.remove(moduleSteps(snap)), n.unbindState(snap.Driver.Version))
}

// statePlace returns the path of the firmware file that is the state.
func (n *Node) statePlace(version string) (string, error) {
	folder, err := os.ReadFile(n.path(firmwarePath))
	if err != nil {
		return "", err
	}
	dir := strings.TrimSpace(string(folder))
	if dir == "" {
		dir = "/lib/firmware"
	}
	return filepath.Join(dir, "nvidia", version, filepath.Base(statePath(version))), nil
}

// bindState mounts the state over an empty file in the driver root.
func (n *Node) bindState(version string) error {
	place, err := n.statePlace(version)
	if err != nil {
		return err
	}
	if err := unix.Mount(n.path(stateFile), place, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show the state at %s, the firmware of driver %s: %w", place, version, err)
	}
	return nil
}

func (n *Node) unbindState(version string) error {
	place, err := n.statePlace(version)
	if err != nil {
		return err
	}
	err = unix.Unmount(place, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("hide the state at %s: %w", place, err)
	}
	return nil
}

// Served reports whether the driver serves a device at a path in /dev.
func (n *Node) Served(path string) bool {
	dir, name := filepath.Split(path)
	rest, is := strings.CutPrefix(name, "nvidia")
	if _, err := strconv.Atoi(rest); !is || filepath.Base(dir) != devDir || err != nil && rest != "ctl" {
		return false
	}
	return n.state.Show().Driver.Loaded
}
