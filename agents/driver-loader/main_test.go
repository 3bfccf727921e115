package main

import (
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/ldso/ldsotest"
)

func TestMain(m *testing.M) { agenttest.Main(m, main) }

const version = "580.95.05"

// host is a host with a GPU, on which a driver of its own is loaded.
type host struct {
	t   *testing.T
	dir string
}

func newHost(t *testing.T) host {
	t.Helper()
	h := host{t: t, dir: t.TempDir()}
	const bus = "sys/bus/pci/devices/0000:17:00.0/"
	for path, content := range map[string]string{
		bus + "vendor": "0x10de\n", bus + "device": "0x2330\n", bus + "class": "0x030200\n",
		"sys/module/nvidia/initstate": "live\n", "sys/module/nvidia/version": version + "\n", "sys/module/nvidia/refcnt": "0\n",
		"proc/sys/kernel/osrelease":  "6.1.0-1-amd64\n",
		"proc/version":               "Linux version 6.1.0-1-amd64 (a@b) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) #1 SMP\n",
		"proc/devices":               "Character devices:\n195 nvidia\n195 nvidiactl\n511 nvidia-uvm\n",
		"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " + version + "  Release Build\n",
		"proc/driver/nvidia/params":  "DeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n",
		"host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so." + version: string(ldsotest.Library(elf.EM_X86_64, "libnvidia-ml.so.1")),
		"run/.keep": "", "host/dev/char/.keep": "",
	} {
		path = h.path(path)
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NilError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	assert.NilError(t, os.Symlink("libnvidia-ml.so."+version, h.path("host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")))
	return h
}

func (h host) path(p string) string { return filepath.Join(h.dir, p) }

func (h host) args() []string {
	return []string{
		"--listen", "127.0.0.1:0", "--host-root", h.path("host"), "--proc-root", h.path("proc"), "--sys-root", h.path("sys"),
		"--run-root", h.path("run"), "--store", h.path("store"), "--driver-install-dir", h.path("run/driver"), "--kernel-module-config", h.path("none"),
	}
}

func (h host) start() *agenttest.Process {
	h.t.Helper()
	p := agenttest.Start(h.t, agenttest.Command(h.t, nil, h.args()...))
	assert.NilError(h.t, p.Log.Wait(agenttest.Deadline(h.t), "driver is ready"))
	return p
}

// files returns all files of the host with what changes when they are written.
func (h host) files() map[string]string {
	h.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(h.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var s syscall.Stat_t
		if err := syscall.Lstat(path, &s); err != nil {
			return err
		}
		out[strings.TrimPrefix(path, h.dir)] = fmt.Sprint(s.Ino, s.Ctim)
		return nil
	})
	assert.NilError(h.t, err)
	return out
}

func TestADriverOfTheHostIsUsedAndStays(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this machine has no root for us, who makes device nodes")
	}
	h := newHost(t)
	p := h.start()
	fact := contract.Dir{Root: h.path("run"), ProcRoot: h.path("proc")}.Read(contract.DriverReady)
	if fact.State != contract.Valid || fact.Stamp.DriverVersion != version || fact.Values[contract.KeyIsHostDriver] != "true" || fact.Values[contract.KeyDriverRoot] != "/" {
		t.Errorf("driver-ready is %+v", fact)
	}
	if status, body := p.Ask("/readyz"); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}
	if metrics := p.Get("/metrics"); !strings.Contains(metrics, `outrigger_driver_loader_driver_info{type="open",version="580.95.05"} 1`) {
		t.Error("/metrics lacks the driver")
	}
	p.Stop()
	before := h.files()
	if _, err := os.Lstat(h.path("host/dev/nvidiactl")); err != nil {
		t.Error(err)
	}
	h.start().Stop()
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Errorf("a restart wrote (-before +after):\n%s", d)
	}
}

// bareHost is a host with a GPU, and no driver.
func bareHost(t *testing.T) host {
	t.Helper()
	h := newHost(t)
	for _, path := range []string{"sys/module/nvidia", "host/usr", "proc/driver", "proc/devices"} {
		assert.NilError(t, os.RemoveAll(h.path(path)))
	}
	return h
}

func TestSourcesAreImportedByTheCommandsThatTakeThem(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no compiler, and nothing that fetches headers
	for _, command := range []string{"build", "load"} {
		t.Run(command, func(t *testing.T) {
			h := bareHost(t)
			fails := func(part string, args ...string) {
				t.Helper()
				out, err := agenttest.Command(t, nil, append(append([]string{command}, h.args()...), args...)...).CombinedOutput()
				if err == nil || !strings.Contains(string(out), part) {
					t.Errorf("%q: %v, no %q in:\n%s", args, err, part, out)
				}
			}
			fails("driver: it is not in the store")
			fails(h.path("none")+": does not exist", "--source", h.path("none"))
			fails(h.path("run")+": has no driver", "--source", h.path("run"))
			fails("apt-get or dnf: cannot run the program", "--source", "../../sim/modules")
			drivers, err := filepath.Glob(h.path("store/drivers/" + version + "-*/source/open/Kbuild"))
			if err != nil || len(drivers) != 1 {
				t.Errorf("the store has %q, %v", drivers, err)
			}
			fails("has driver "+version+", but --driver-version is 1.2.3: set only one of them", "--source", "../../sim/modules", "--driver-version", "1.2.3")
		})
	}
}

func TestABareNodeSaysWhatItWaitsFor(t *testing.T) {
	h := bareHost(t)
	p := agenttest.Start(t, agenttest.Command(t, nil, h.args()...))
	assert.NilError(t, p.Log.Wait(agenttest.Deadline(t), "code=DriverMissing"))
	if status, body := p.Ask("/readyz"); status != 503 || !strings.Contains(body, "driver-loader import PATH") {
		t.Errorf("/readyz: %d %s", status, body)
	}
	p.Stop()
	p = agenttest.Start(t, agenttest.Command(t, nil, append(h.args(), "--payload", h.path("none.run"))...))
	assert.NilError(t, p.Log.Wait(agenttest.Deadline(t), "code=PayloadMissing"))
	if status, body := p.Ask("/readyz"); status != 503 || !strings.Contains(body, h.path("none.run")) {
		t.Errorf("/readyz: %d %s", status, body)
	}
	p.Stop()
	agenttest.Fails(t, agenttest.Command(t, nil, append([]string{"load"}, h.args()...)...), 1, "the desired driver is not loaded")
	out, err := agenttest.Command(t, nil, append([]string{"load"}, h.args()...)...).Output()
	if cause, _, _ := strings.Cut(string(out), "\n"); err == nil || !strings.Contains(cause, "; fix: ") {
		t.Errorf("load prints %q first, %v, want cause and fix", cause, err)
	}
	out, err = agenttest.Command(t, nil, append(append([]string{"load"}, h.args()...), "--sys-root", h.path("none"))...).Output()
	if cause, _, _ := strings.Cut(string(out), "\n"); err == nil || !strings.Contains(cause, "set --sys-root") {
		t.Errorf("without sysfs, load prints %q first, %v", cause, err)
	}
}

// TestTheLicenseOfAVirtualGPUIsReported runs the agent where a license is configured, and beside an
// nvidia-smi that says whether it is there.
func TestTheLicenseOfAVirtualGPUIsReported(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this machine has no root for us, who makes device nodes and mounts")
	}
	h := newHost(t)
	says := func(status string) {
		text := "#!/bin/sh\ncat <<END\nGPU 00000000:02:01.0\n    vGPU Software Licensed Product\n        Product Name : vCS\n        License Status : " + status + "\nEND\n"
		program := h.path("bin/nvidia-smi")
		assert.NilError(t, os.MkdirAll(filepath.Dir(program), 0o755))
		// Replaced, because the agent may run it.
		assert.NilError(t, os.WriteFile(program+".new", []byte(text), 0o755))
		assert.NilError(t, os.Rename(program+".new", program))
	}
	says("Unlicensed (Unrestricted)")
	agent := agenttest.Command(t, nil)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "unshare", append([]string{
		"--mount", "sh", "-ec", `mount -t tmpfs license /etc; mkdir /etc/nvidia; : >/etc/nvidia/gridd.conf; exec "$0" "$@"`, agent.Path,
	}, h.args()...)...)
	cmd.Env, cmd.SysProcAttr = append(agent.Env, "PATH="+h.path("bin")+":"+os.Getenv("PATH")), agent.SysProcAttr
	p := agenttest.Start(t, cmd)
	wait := func(parts ...string) {
		t.Helper()
		assert.NilError(t, p.Log.Wait(agenttest.Deadline(t), parts...))
	}
	wait("vgpu has no license yet, checking again", "gpu=00000000:02:01.0")
	says("Licensed (Expiry: 2026-1-31 9:5:7 GMT)")
	p.Signal(syscall.SIGHUP)
	wait("vgpu is licensed", "gpu=00000000:02:01.0")
	const labels = `{gpu="00000000:02:01.0",product="vCS"} `
	metrics := p.Get("/metrics")
	for _, want := range []string{"vgpu_licensed" + labels + "1\n", "vgpu_license_expiry_timestamp_seconds" + labels + "1.769850307e+09\n"} {
		if !strings.Contains(metrics, "outrigger_driver_loader_"+want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	says("Unlicensed (Restricted)")
	p.Signal(syscall.SIGHUP)
	wait("vgpu has no license and becomes slow", "Unlicensed (Restricted)", "VGPULicenseLost")
	if want := "outrigger_driver_loader_vgpu_licensed" + labels + "0\n"; !strings.Contains(p.Get("/metrics"), want) {
		t.Errorf("/metrics lacks %s", want)
	}
	p.Stop()
}
