package stack_test

import (
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/pci"
)

func TestTheDriverManagesTheMemoryOfGPUsThatAreCoupledToAGraceCPU(t *testing.T) {
	const set = "NVreg_CoherentGPUMemoryMode=driver"
	for name, tc := range map[string]struct {
		product      uint16
		version      string
		params, want string
	}{
		"GH200":                             {0x2342, "580.95.05", "", set},
		"GB200":                             {0x2941, "590.10.01", "", set},
		"GB300":                             {0x31c2, "580.65.06", "", set},
		"H200":                              {0x2335, "580.95.05", "", ""},
		"B200":                              {0x2901, "580.95.05", "", ""},
		"a driver without the parameter":    {0x2342, "580.65.05", "", ""},
		"an older branch":                   {0x2342, "575.99.99", "", ""},
		"a version of another form":         {0x2342, "newest", "", ""},
		"other parameters stay":             {0x2342, "580.95.05", "NVreg_EnableMSI=1", "NVreg_EnableMSI=1 " + set},
		"an operator has chosen the kernel": {0x2342, "580.95.05", "NVreg_CoherentGPUMemoryMode=numa", "NVreg_CoherentGPUMemoryMode=numa"},
	} {
		params := stack.Params{"nvidia": strings.Fields(tc.params), "nvidia_uvm": {"x=1"}}
		got := stack.WithDefaults(params, tc.version, []pci.Device{{Product: tc.product}})
		if strings.Join(got["nvidia"], " ") != tc.want || len(got["nvidia_uvm"]) != 1 || strings.Join(params["nvidia"], " ") != tc.params {
			t.Errorf("%s: %q, want %q; the parameters became %q", name, got["nvidia"], tc.want, params["nvidia"])
		}
		if stack.CoherentDefault(params, got) != strings.Contains(tc.want, "=driver") {
			t.Errorf("%s: set by default: %v", name, stack.CoherentDefault(params, got))
		}
	}
}
