// Package loadertest makes nodes with a GPU for tests of driver changes. A node consists of files
// below a folder, and of a fake kernel that keeps its modules there. The files outlive the process
// that uses them, like the files of a host.
package loadertest

import (
	"debug/elf"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/module/moduletest"
	"outrigger.dev/agents/driver-loader/internal/optional"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/agents/driver-loader/internal/root"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/devnode"
)

const (
	release = "6.1.0-1-amd64"
	bus     = "0000:17:00.0"
	// Machine is the processor of the node.
	Machine = "x86_64"
	// Param is a parameter of the module nvidia.
	Param = "NVreg_Sample"
)

// Node is a test node. With the zero value of all fields but Dir, everything works.
type Node struct {
	Dir string
	// At is called before a module is loaded or unloaded, and before a device is opened:
	// "load nvidia", "unload nvidia_uvm", "open nvidiactl". It may end the process.
	At func(what string) `json:"-"`
	// Optional is set if the drivers have the optional modules.
	Optional bool
}

// optionalModules returns the optional modules.
func optionalModules() []string { return stack.Optional(stack.All()) }

// New makes a node without a driver. It needs root, for mounts and device nodes.
func New(t *testing.T) Node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this machine has no root for us, who mounts and makes device nodes")
	}
	n := Node{Dir: t.TempDir()}
	own, err := os.Readlink("/proc/thread-self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		"sys/bus/pci/devices/" + bus + "/vendor": "0x10de\n", "sys/bus/pci/devices/" + bus + "/device": "0x2330\n", "sys/bus/pci/devices/" + bus + "/class": "0x030200\n",
		"run/.keep": "", "dev/char/.keep": "", "host/.keep": "",
		"proc/sys/kernel/osrelease":           release + "\n",
		"proc/sys/kernel/random/boot_id":      "11111111-2222-3333-4444-555555555555\n",
		"proc/version":                        "Linux version " + release + " (a@b) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) #1 SMP\n",
		"modules/" + release + "/modules.dep": "", "modules/" + release + "/modules.builtin": "kernel/i2c-core.ko\nkernel/ipmi_msghandler.ko\nkernel/ipmi_devintf.ko\n",
		"proc/1/.keep": "",
	} {
		payloadtest.Write(t, n.path(path), content, 0o644)
	}
	if err := errors.Join(os.Mkdir(n.path("sys/module"), 0o755), os.Mkdir(n.path("proc/1/ns"), 0o755), os.Symlink(own, n.path("proc/1/ns/mnt"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.place().Hide(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n Node) path(p string) string { return filepath.Join(n.Dir, p) }

func (n Node) place() root.Driver {
	return root.Driver{At: n.path("run/driver"), Proc: n.path("proc"), Sys: n.path("sys")}
}

// Config returns the configuration of a Loader that loads the version, or the newest driver for "".
func (n Node) Config(version string, log *slog.Logger) loader.Config {
	roots := kernel.Root{Proc: n.path("proc"), Sys: n.path("sys"), Modules: n.path("modules"), Dev: n.path("dev")}
	return loader.Config{
		Kernel: roots, HostRoot: n.path("host"), Store: n.path("store"), Log: log, Calls: n, Open: n.Open, Place: n.place(),
		Contract: contract.Dir{Root: n.path("run"), ProcRoot: roots.Proc},
		Nodes:    devnode.Config{Proc: roots.Proc, Dev: roots.Dev, Char: filepath.Join(roots.Dev, "char")},
		Builder:  &build.Builder{Places: build.Places{Root: n.path("host"), Store: n.path("store")}, Log: log},
		Desired:  func() (loader.Desired, error) { return loader.Desired{Version: version}, nil },
	}
}

// Stock puts a driver with built modules into the store.
func (n Node) Stock(t *testing.T, version string) payload.Payload {
	t.Helper()
	p, err := payload.Store{Dir: n.path("store"), Machine: Machine}.Import(t.Context(), payloadtest.Driver{Version: version, Machine: elf.EM_X86_64}.Folder(t))
	if err != nil {
		t.Fatal(err)
	}
	k, err := kernel.Observe(n.Config("", nil).Kernel)
	if err != nil {
		t.Fatal(err)
	}
	request := build.Request{Release: k.Release, Machine: k.Machine, Banner: k.Banner, Payload: p, Flavour: payload.Open}
	set := cache.Set{Key: request.Key(k.Banner)}
	dir := t.TempDir()
	modules := map[string][]string{"nvidia": nil, "nvidia_uvm": {"nvidia"}, "nvidia_modeset": {"nvidia"}}
	for _, name := range optionalModules() {
		if n.Optional {
			modules[name] = []string{"nvidia"}
		}
	}
	for name, depends := range modules {
		m := moduletest.Module{Name: name, Version: version, Vermagic: release + " SMP", Depends: depends, Params: []string{Param}, BuildID: name + version}
		file := filepath.Join(dir, name+".ko")
		payloadtest.Write(t, file, string(m.Bytes()), 0o644)
		set.Modules = append(set.Modules, cache.Module{Name: name, File: file})
	}
	if _, err := (cache.Cache{Dir: n.path("store")}).Add(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return p
}

// StockPeermem puts nvidia_peermem with a parameter into the store, as a module that was built alone.
func (n Node) StockPeermem(t *testing.T, p payload.Payload, param string) {
	t.Helper()
	k, err := kernel.Observe(n.Config("", nil).Kernel)
	if err != nil {
		t.Fatal(err)
	}
	m := moduletest.Module{Name: stack.Peermem, Version: p.Version, Vermagic: release + " SMP", Depends: []string{stack.Core}, Params: []string{param}}
	file := filepath.Join(t.TempDir(), "nvidia-peermem.ko")
	payloadtest.Write(t, file, string(m.Bytes()), 0o644)
	request := build.Request{Release: k.Release, Machine: k.Machine, Banner: k.Banner, Payload: p, Flavour: payload.Open}
	set := cache.Set{Key: request.AloneKey(k.Banner, build.Alone{Module: stack.Peermem}), Modules: []cache.Module{{Name: stack.Peermem, File: file}}, Network: "n1"}
	if _, err := (cache.Cache{Dir: n.path("store")}).Add(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

// StockSource puts sources of an optional module into the store. The node has no headers to build them.
func (n Node) StockSource(t *testing.T, module string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), module+"-1")
	payloadtest.Write(t, filepath.Join(dir, "Makefile"), "all:\n", 0o644)
	if sources, err := optional.Import(t.Context(), n.path("store"), dir); err != nil || len(sources) != 1 {
		t.Fatal(sources, err)
	}
}

// Reject makes the module nvidia of a version fail when it is loaded.
func (n Node) Reject(t *testing.T, version string) {
	payloadtest.Write(t, n.path("rejected"), version, 0o644)
}

// Break makes a module fail when it is loaded, until the text is "".
func (n Node) Break(t *testing.T, module, text string) {
	t.Helper()
	if text != "" {
		payloadtest.Write(t, n.path("failing/"+module), text, 0o644)
	} else if err := os.Remove(n.path("failing/" + module)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// Adapter adds a network adapter that can access the memory of GPUs.
func (n Node) Adapter(t *testing.T) {
	t.Helper()
	payloadtest.Write(t, n.path("sys/bus/pci/devices/0000:18:00.0/vendor"), "0x15b3\n", 0o644)
}

// Nouveau loads the kernel's own driver for the GPUs, which is installed on the node.
func (n Node) Nouveau(t *testing.T) {
	t.Helper()
	m := moduletest.Module{Name: "nouveau", Vermagic: release + " SMP"}
	payloadtest.Write(t, n.path("modules/"+release+"/kernel/nouveau.ko"), string(m.Bytes()), 0o644)
	payloadtest.Write(t, n.path("modules/"+release+"/modules.dep"), "kernel/nouveau.ko:\n", 0o644)
	for name, content := range map[string]string{"initstate": "live\n", "refcnt": "0\n"} {
		payloadtest.Write(t, n.path("sys/module/nouveau/"+name), content, 0o644)
	}
}

// HasModule reports whether a module is loaded.
func (n Node) HasModule(name string) bool {
	_, err := os.Stat(n.path("sys/module/" + name))
	return err == nil
}

// Param returns the value of the parameter Param of the module nvidia, or "" without a value.
func (n Node) Param() string {
	data, _ := os.ReadFile(n.path("sys/module/nvidia/parameters/" + Param))
	return strings.TrimSpace(string(data))
}

// Mute makes the devices of a version fail when they are opened.
func (n Node) Mute(t *testing.T, version string) {
	payloadtest.Write(t, n.path("muted"), version, 0o644)
}

// Use adds or removes a user of the loaded driver.
func (n Node) Use(t *testing.T, is bool) {
	t.Helper()
	if is {
		payloadtest.Write(t, n.path("used"), "", 0o644)
	} else if err := os.Remove(n.path("used")); err != nil {
		t.Fatal(err)
	}
	if err := n.count(); err != nil {
		t.Fatal(err)
	}
}

// ContainerLock is a file that NVIDIA's driver container locks while it runs.
const ContainerLock = "run/nvidia-driver.pid"

// Container makes the loaded driver a driver of NVIDIA's driver container.
func (n Node) Container(t *testing.T) {
	t.Helper()
	payloadtest.Write(t, n.path("run/validations/.driver-ctr-ready"), "GDS_ENABLED=false\n", 0o644)
	payloadtest.Write(t, n.path(ContainerLock), "1\n", 0o644)
	if err := os.Remove(n.path("store/journal.json")); err != nil {
		t.Fatal(err)
	}
	n.Stranger(t)
}

// Stranger makes the loaded driver a driver that another program has built and loaded.
func (n Node) Stranger(t *testing.T) {
	t.Helper()
	payloadtest.Write(t, n.path("sys/module/nvidia/"+buildID), note("another program's"), 0o644)
}

// Reboot removes everything that does not survive a reboot.
func (n Node) Reboot(t *testing.T) {
	t.Helper()
	if err := n.place().Hide(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"sys/module", "proc/driver", "proc/devices", "run", "dev"} {
		if err := os.RemoveAll(n.path(p)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"sys/module", "run", "dev/char"} {
		if err := os.MkdirAll(n.path(p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	payloadtest.Write(t, n.path("proc/sys/kernel/random/boot_id"), "99999999-2222-3333-4444-555555555555\n", 0o644)
}

// Loaded returns the version of the driver if all of its modules are loaded, or "".
func (n Node) Loaded() string {
	for _, name := range []string{"nvidia_uvm", "nvidia_modeset"} {
		if _, err := os.Stat(n.path("sys/module/" + name)); err != nil {
			return ""
		}
	}
	data, _ := os.ReadFile(n.path("sys/module/nvidia/version"))
	return strings.TrimSpace(string(data))
}

// Published returns the version in the fact driver-ready, or "".
func (n Node) Published() string {
	return contract.Dir{Root: n.path("run"), ProcRoot: n.path("proc")}.Read(contract.DriverReady).Stamp.DriverVersion
}
