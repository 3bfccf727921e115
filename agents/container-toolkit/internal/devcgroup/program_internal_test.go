package devcgroup

import (
	"fmt"
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

// TestExtendHardenedProgram has a program that the kernel has hardened: it takes constants
// apart in a register that no loaded program may use.
func TestExtendHardenedProgram(t *testing.T) {
	program := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, offsetMajor, asm.Word),
		asm.Mov.Imm(hiddenRegister, 5),
		asm.Xor.Imm(hiddenRegister, 6),
		asm.JEq.Reg(asm.R2, hiddenRegister, "end"),
		asm.Xor.Reg(asm.R0, asm.R0),
		asm.Xor.Reg32(asm.R3, asm.R3),
		asm.Return().WithSymbol("end"),
	}
	got, err := extend(program, []Device{{195, 0}})
	assert.NilError(t, err)
	tail := got[len(got)-len(program):]
	assert.Equal(t, tail[1].Dst, asm.R9)
	assert.Equal(t, tail[2].Dst, asm.R9)
	assert.Equal(t, tail[3].Src, asm.R9)
	assert.Equal(t, fmt.Sprint(tail[4], ", ", tail[5]), fmt.Sprint(asm.Mov.Imm(asm.R0, 0), ", ", asm.Mov.Imm32(asm.R3, 0)))

	for r := range asm.RFP {
		program = append(program, asm.Mov.Imm(r, 0))
	}
	_, err = extend(program, []Device{{195, 0}})
	assert.ErrorContains(t, err, "uses all registers")
}
