package abi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/arch"
	"outrigger.dev/sim/internal/state"
)

func TestTwoProcessesSeeEachOthersInstances(t *testing.T) {
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	cmd := process(t, "divide")
	cmd.Env = append(cmd.Env, libraryKey+"="+m.library)
	they := startOther(t, cmd)

	mustBe(t, "their creation", they.ask(t, "create").Ret, nvml.SUCCESS)
	list := migDevices(t, d)
	if len(list) != 1 {
		t.Fatalf("got %d MIG devices, want theirs", len(list))
	}
	theirs := uuidOf(t, list[0])
	ours := uuidOf(t, migDevice(t, d))
	mustEqual(t, "number of MIG devices that they see", 2, len(they.ask(t, "list").UUIDs))

	mustBe(t, "their destruction", they.ask(t, "destroy").Ret, nvml.SUCCESS)
	_, ret := list[0].GetUUID()
	mustBe(t, "nvmlDeviceGetUUID of what they destroyed", ret, nvml.ERROR_INVALID_ARGUMENT)
	mustEqual(t, "MIG devices that they see", []string{ours}, they.ask(t, "list").UUIDs)
	if ours == theirs {
		t.Error("two MIG devices at once have one UUID")
	}

	m.clear(t, 0)
	mustBe(t, "their use of what we destroyed", they.ask(t, "use").Ret, nvml.ERROR_INVALID_ARGUMENT)
}

// clear destroys all instances of a GPU.
func (m *machine) clear(t *testing.T, slot state.Slot) {
	t.Helper()
	mig, err := m.MIG(slot)
	mustDo(t, err)
	for _, gi := range mig.GPUInstances {
		for _, ci := range gi.ComputeInstances {
			mustDo(t, m.DestroyComputeInstance(slot, ci))
		}
		mustDo(t, m.DestroyGPUInstance(slot, gi))
	}
}

// nobody starts a process without privileges that may write the state, as one
// that reaches the kernel driver can.
func nobody(t *testing.T, m *machine) other {
	t.Helper()
	cmd := stranger(t, m, "divide")
	mustDo(t, os.Chmod(m.Path(), 0o666))
	return startOther(t, cmd)
}

// MIG User Guide, "Device Nodes and Capabilities": the mig-config capability
// "allows one to create and destroy MIG instances [...]. Without this
// capability, all attempts to create or destroy a MIG instance will fail".
// nvml.h: nvmlDeviceSetMigMode "requires root user", and in MIG mode a GPU gives
// "aggregate information, only if the caller has appropriate privileges".
func TestUnprivilegedProcessIsDenied(t *testing.T) {
	m := divided(t, "a100-40")
	migDevice(t, device(t, m.session(t), 0))
	m.withoutCapabilities(t)
	they := nobody(t, m)
	mustBe(t, "nvmlDeviceCreateGpuInstance", they.ask(t, "create").Ret, nvml.ERROR_NO_PERMISSION)
	mustBe(t, "nvmlDeviceSetMigMode", they.ask(t, "mode").Ret, nvml.ERROR_NO_PERMISSION)
	after, err := m.MIG(0)
	mustDo(t, err)
	mustEqual(t, "GPU instances", 1, len(after.GPUInstances))
	mustEqual(t, "what it sees", reply{
		Memory: nvml.ERROR_NO_PERMISSION, Processes: nvml.ERROR_NO_PERMISSION, Instances: nvml.ERROR_NO_PERMISSION,
	}, they.ask(t, "list"))
}

func TestMonitorCapabilityLetsAProcessReadOnly(t *testing.T) {
	m := divided(t, "a100-40")
	gi := mustID(t, migDevice(t, device(t, m.session(t), 0)))
	m.withoutCapabilities(t)
	m.addNode(t, capMonitor)
	they := nobody(t, m)
	mustEqual(t, "number of MIG devices that they see", 1, len(they.ask(t, "list").UUIDs))
	for _, what := range []string{"ci", "gi"} {
		mustBe(t, "destroy the "+what, they.ask(t, fmt.Sprintf("take %s %d", what, gi)).Ret, nvml.ERROR_NO_PERMISSION)
	}
}

func TestConfigCapabilityLetsAProcessDivideTheGPU(t *testing.T) {
	m := divided(t, "a100-40")
	m.withoutCapabilities(t)
	m.addNode(t, capConfig)
	they := nobody(t, m)
	mustBe(t, "the creation", they.ask(t, "create").Ret, nvml.SUCCESS)
	mustBe(t, "the destruction", they.ask(t, "destroy").Ret, nvml.SUCCESS)
	mustBe(t, "nvmlDeviceSetMigMode", they.ask(t, "mode").Ret, nvml.ERROR_NO_PERMISSION)
}

// MIG User Guide, "Device Nodes and Capabilities": access to a MIG device needs
// that to the capability of its GPU instance and of its compute instance, which
// is why a container sees those that it was given.
func TestProcessSeesTheMIGDevicesThatItMayUse(t *testing.T) {
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	first := uuidOf(t, migDevice(t, d))
	second := uuidOf(t, migDevice(t, d))
	tests := map[string]struct {
		nodes func(*testing.T)
		want  []string
	}{
		"no node":                 {func(*testing.T) {}, nil},
		"the nodes of one device": {func(t *testing.T) { m.allow(t, 0, first) }, []string{first}},
		"only one of the two nodes": {
			func(t *testing.T) { _, ci := m.capabilities(t, 0, second); m.addNode(t, ci) }, nil,
		},
		"the node to monitor": {func(t *testing.T) { m.addNode(t, capMonitor) }, listed(t, d)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m.withoutCapabilities(t)
			test.nodes(t)
			they := nobody(t, m)
			got := they.ask(t, "list")
			mustEqual(t, "MIG devices", test.want, got.UUIDs)
			for i, index := range got.Indices {
				mustEqual(t, "index", i, index)
			}
			for _, uuid := range []string{first, second} {
				want := nvml.ERROR_NOT_FOUND
				if slices.Contains(test.want, uuid) {
					want = nvml.SUCCESS
				}
				mustBe(t, "nvmlDeviceGetHandleByUUID", they.ask(t, "find "+uuid).Ret, want)
			}
		})
	}
}

func listed(t *testing.T, d nvml.Device) []string {
	t.Helper()
	var uuids []string
	for _, mig := range migDevices(t, d) {
		uuids = append(uuids, uuidOf(t, mig))
	}
	return uuids
}

// nvml.h, nvmlEventSetWait_v2: "In absence of required privileges, only the
// events which affect all the instances (i.e. whole device) are reported".
func TestUnprivilegedProcessHearsOfWholeGPUsOnly(t *testing.T) {
	tests := map[string]struct {
		nodes []string
		want  []uint64
	}{
		"without capabilities":           {nil, []uint64{48}},
		"with the capability to monitor": {[]string{capMonitor}, []uint64{43, 48}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := divided(t, "a100-40")
			gi := uint32(mustID(t, migDevice(t, device(t, m.session(t), 0))))
			m.withoutCapabilities(t)
			for _, node := range test.nodes {
				m.addNode(t, node)
			}
			they := nobody(t, m)
			they.ask(t, "list") // they listen by now
			mustDo(t, m.PostXID(0, 43, gi, 0))
			mustDo(t, m.PostXID(0, 48, state.NoInstance, state.NoInstance))
			var got []uint64
			for r := they.ask(t, "wait"); r.Ret == nvml.SUCCESS; r = they.ask(t, "wait") {
				got = append(got, r.XID)
			}
			mustEqual(t, "XIDs", test.want, got)
		})
	}
}

// The kernel makes the access file of an instance, and nvidia-modprobe its node
// (MIG User Guide, "Device Nodes and Capabilities"). Neither is there, so the
// library writes both where it sees the node's /proc and /dev: below the root
// that it lies in.
func TestLibraryShowsInstancesBelowItsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making device nodes needs root")
	}
	m := divided(t, "a100-40")
	root := t.TempDir()
	library := filepath.Join(root, arch.Libraries, "libnvidia-ml.so.1")
	capabilities := filepath.Join(root, "proc/driver/nvidia/capabilities/gpu0/mig")
	for _, dir := range []string{filepath.Dir(library), capabilities, filepath.Join(root, "dev/nvidia-caps"), filepath.Join(root, "lib/firmware/nvidia/580.95.05")} {
		mustDo(t, os.MkdirAll(dir, 0o755))
	}
	content, err := os.ReadFile(m.library)
	mustDo(t, err)
	mustDo(t, os.WriteFile(library, content, 0o755))
	mustDo(t, os.Symlink(m.Path(), filepath.Join(root, "lib/firmware/nvidia/580.95.05/gsp_sim.bin")))
	mustDo(t, os.WriteFile(filepath.Join(root, "proc/devices"), []byte("Character devices:\n508 nvidia-caps\n"), 0o644))
	t.Setenv("GPU_SIM_STATE", "")
	cmd := process(t, "divide")
	cmd.Env = append(cmd.Env, libraryKey+"="+library)
	they := startOther(t, cmd)

	mustBe(t, "the creation", they.ask(t, "create").Ret, nvml.SUCCESS)
	mig, err := m.MIG(0)
	mustDo(t, err)
	gi := mig.GPUInstances[0]
	for path, minor := range map[string]int{
		fmt.Sprintf("gi%d/access", gi.ID):     gi.Minor,
		fmt.Sprintf("gi%d/ci0/access", gi.ID): gi.ComputeInstances[0].Minor,
	} {
		content, err := os.ReadFile(filepath.Join(capabilities, path))
		mustDo(t, err)
		want := fmt.Sprintf("DeviceFileMinor: %d\nDeviceFileMode: %d\nDeviceFileModify: 1\n", minor, 0o444)
		mustEqual(t, path, want, string(content))
		_, err = os.Stat(filepath.Join(root, fmt.Sprintf("dev/nvidia-caps/nvidia-cap%d", minor)))
		mustDo(t, err)
	}
	mustBe(t, "the destruction", they.ask(t, "destroy").Ret, nvml.SUCCESS)
	left, err := os.ReadDir(capabilities)
	mustDo(t, err)
	mustEqual(t, "what is left of the instances", 0, len(left))
}
