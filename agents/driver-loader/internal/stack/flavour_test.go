package stack_test

import (
	"testing"

	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/pci"
)

func TestUnsupportedFlavours(t *testing.T) {
	for name, tc := range map[string]struct {
		product           uint16
		open, proprietary bool
	}{
		"V100":     {0x1db4, false, true},
		"T4":       {0x1eb8, true, true},
		"A100":     {0x20b0, true, true},
		"H100":     {0x2330, true, true},
		"GH200":    {0x2342, true, false},
		"L40S":     {0x26b9, true, true},
		"B200":     {0x2901, true, false},
		"RTX 5090": {0x2b85, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := pci.Device{Product: tc.product}
			open, proprietary := stack.Unsupported(payload.Open, gpu), stack.Unsupported(payload.Proprietary, gpu)
			if (open == "") != tc.open || (proprietary == "") != tc.proprietary {
				t.Errorf("open %q, proprietary %q", open, proprietary)
			}
		})
	}
}
