package devcgroup

import (
	"testing"

	"github.com/cilium/ebpf/asm"
	"gotest.tools/v3/assert"
)

func TestExtendRejectsWhatCannotBeLoadedAgain(t *testing.T) {
	one := []Device{{195, 0}}
	for name, tc := range map[string]struct {
		program asm.Instructions
		err     string
	}{
		"a program without instructions": {nil, "no instructions"},
		"a program that calls a function": {
			asm.Instructions{asm.FnKtimeGetNs.Call(), asm.Return()}, "instruction 0 of the attached program: it calls a function",
		},
		"a program that uses a map": {
			asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.LoadMapPtr(asm.R1, 3), asm.Return()}, "instruction 1 of the attached program: it uses a map",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := extend(tc.program, one)
			assert.ErrorContains(t, err, tc.err)
		})
	}
}
