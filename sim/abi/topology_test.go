package abi_test

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

func TestTopology(t *testing.T) {
	type pair struct {
		Level  nvml.GpuTopologyLevel
		NVLink nvml.GpuP2PStatus
	}
	tests := map[string]struct {
		model string
		want  map[[2]int]pair
	}{
		"HGX A100": {"a100-40", map[[2]int]pair{
			{0, 1}: {nvml.TOPOLOGY_MULTIPLE, nvml.P2P_STATUS_OK}, {0, 7}: {nvml.TOPOLOGY_SYSTEM, nvml.P2P_STATUS_OK},
		}},
		"HGX H100": {"h100-80", map[[2]int]pair{
			{0, 3}: {nvml.TOPOLOGY_NODE, nvml.P2P_STATUS_OK}, {3, 4}: {nvml.TOPOLOGY_SYSTEM, nvml.P2P_STATUS_OK},
		}},
		"HGX B200": {"b200", map[[2]int]pair{
			{0, 3}: {nvml.TOPOLOGY_NODE, nvml.P2P_STATUS_OK}, {3, 4}: {nvml.TOPOLOGY_SYSTEM, nvml.P2P_STATUS_OK},
		}},
		"a compute tray of an NVL72": {"gb200", map[[2]int]pair{
			{0, 1}: {nvml.TOPOLOGY_NODE, nvml.P2P_STATUS_OK}, {1, 2}: {nvml.TOPOLOGY_SYSTEM, nvml.P2P_STATUS_OK},
		}},
		"L4 in a PCIe server": {"l4", map[[2]int]pair{
			{0, 1}: {nvml.TOPOLOGY_SINGLE, nvml.P2P_STATUS_NOT_SUPPORTED}, {0, 2}: {nvml.TOPOLOGY_HOSTBRIDGE, nvml.P2P_STATUS_NOT_SUPPORTED},
			{0, 4}: {nvml.TOPOLOGY_SYSTEM, nvml.P2P_STATUS_NOT_SUPPORTED},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			lib := newMachine(t, state.NewSpec(test.model, 8)).session(t)
			for gpus, want := range test.want {
				a, b := device(t, lib, gpus[0]), device(t, lib, gpus[1])
				var got pair
				var ret nvml.Return
				got.Level, ret = a.GetTopologyCommonAncestor(b)
				mustBe(t, "nvmlDeviceGetTopologyCommonAncestor", ret, nvml.SUCCESS)
				got.NVLink, ret = a.GetP2PStatus(b, nvml.P2P_CAPS_INDEX_NVLINK)
				mustBe(t, "nvmlDeviceGetP2PStatus", ret, nvml.SUCCESS)
				if got != want {
					t.Errorf("GPUs %v: got %+v, want %+v", gpus, got, want)
				}
			}
		})
	}
}

func TestNVLinksLeadToSwitches(t *testing.T) {
	m := newMachine(t, state.NewSpec("h100-80", 2))
	d := device(t, m.session(t), 0)
	kind, ret := d.GetNvLinkRemoteDeviceType(17)
	mustBe(t, "nvmlDeviceGetNvLinkRemoteDeviceType", ret, nvml.SUCCESS)
	pci, ret := d.GetNvLinkRemotePciInfo(17)
	mustBe(t, "nvmlDeviceGetNvLinkRemotePciInfo", ret, nvml.SUCCESS)
	if kind != nvml.NVLINK_DEVICE_TYPE_SWITCH || pci.PciDeviceId != 0x22a310de || pci.Bus != 0x08 {
		t.Errorf("got type %d, device %#x on bus %#x, want the last NVSwitch", kind, pci.PciDeviceId, pci.Bus)
	}
	_, ret = d.GetNvLinkState(18)
	mustBe(t, "nvmlDeviceGetNvLinkState behind the last link", ret, nvml.ERROR_INVALID_ARGUMENT)

	mustDo(t, m.SetField(0, "nvlinks", "17"))
	up, ret := d.GetNvLinkState(17)
	mustBe(t, "nvmlDeviceGetNvLinkState", ret, nvml.SUCCESS)
	if up != nvml.FEATURE_DISABLED {
		t.Errorf("got link 17 state %d, want it down", up)
	}
}
