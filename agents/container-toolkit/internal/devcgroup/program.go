package devcgroup

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// The context of a program, struct bpf_cgroup_dev_ctx of linux/bpf.h: three words, of
// which the first has the kind of device in the lower half and the access in the upper.
const (
	offsetAccess = 0
	offsetMajor  = 4
	offsetMinor  = 8

	kindMask    = 0xffff
	kindChar    = 2
	accessShift = 16
	accessMknod = 1
)

// originalStart is where the instructions of the replaced program begin.
const originalStart = "theirs"

// hiddenRegister is a register that only the kernel uses, for constants in hardened programs
// (sysctl net.core.bpf_jit_harden=2). A program that is loaded cannot have it.
const hiddenRegister = asm.RFP + 1

// extend returns a program that lets processes read and write the devices, and for
// every other access does what the program does.
func extend(program asm.Instructions, devices []Device) (asm.Instructions, error) {
	if len(program) == 0 {
		return nil, fmt.Errorf("the attached program has no instructions")
	}
	spare, err := spareRegister(program)
	if err != nil {
		return nil, err
	}
	out := prologue(devices)
	for i, ins := range program {
		if err := repeatable(ins); err != nil {
			return nil, fmt.Errorf("instruction %d of the attached program: %w", i, err)
		}
		plain := loadable(ins, spare)
		if i == 0 {
			plain = plain.WithSymbol(originalStart)
		}
		out = append(out, plain)
	}
	return out, nil
}

// loadable returns an instruction as it can be loaded: without the names and debug
// information that the kernel keeps beside it, which would no longer fit, and without what
// only the kernel may write into a program that it hardens. Jumps are relative.
func loadable(ins asm.Instruction, spare asm.Register) asm.Instruction {
	out := asm.Instruction{OpCode: ins.OpCode, Dst: ins.Dst, Src: ins.Src, Offset: ins.Offset, Constant: ins.Constant}
	for _, r := range []*asm.Register{&out.Dst, &out.Src} {
		if *r == hiddenRegister {
			*r = spare
		}
	}
	// It makes a register zero in this way, which may have no value yet.
	if out.OpCode.ALUOp() == asm.Xor && out.OpCode.Source() == asm.RegSource && out.Dst == out.Src {
		zero := asm.Mov.Imm
		if out.OpCode.Class() == asm.ALUClass {
			zero = asm.Mov.Imm32
		}
		return zero(out.Dst, 0)
	}
	return out
}

// spareRegister returns a register that a program does not use, to take the place of the
// hidden one.
func spareRegister(program asm.Instructions) (asm.Register, error) {
	var used [16]bool
	for _, ins := range program {
		used[ins.Dst&15], used[ins.Src&15] = true, true
	}
	if !used[hiddenRegister] {
		return hiddenRegister, nil
	}
	for r := asm.R9; r > asm.R0; r-- {
		if !used[r] {
			return r, nil
		}
	}
	return 0, fmt.Errorf("the kernel has hardened the attached program, which uses all registers, so it cannot be extended")
}

// repeatable returns an error for an instruction that the kernel shows in another form
// than the one in which it was loaded.
func repeatable(ins asm.Instruction) error {
	switch {
	case ins.OpCode.JumpOp() == asm.Call:
		return fmt.Errorf("it calls a function, so the program cannot be extended")
	case ins.OpCode.IsDWordLoad() && ins.Src != asm.R0:
		return fmt.Errorf("it uses a map, so the program cannot be extended")
	}
	return nil
}

// prologue returns the instructions that allow the devices, and leave the context in
// R1 as they found it.
func prologue(devices []Device) asm.Instructions {
	out := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, offsetAccess, asm.Word),
		asm.Mov.Reg(asm.R3, asm.R2),
		asm.And.Imm(asm.R2, kindMask),
		asm.JNE.Imm(asm.R2, kindChar, originalStart),
		asm.RSh.Imm(asm.R3, accessShift),
		asm.And.Imm(asm.R3, accessMknod),
		asm.JNE.Imm(asm.R3, 0, originalStart),
		asm.LoadMem(asm.R2, asm.R1, offsetMajor, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, offsetMinor, asm.Word),
	}
	for i, d := range devices {
		next := originalStart
		if i < len(devices)-1 {
			next = fmt.Sprintf("device%d", i+1)
		}
		first := asm.JNE.Imm(asm.R2, int32(d.Major), next)
		if i > 0 {
			first = first.WithSymbol(fmt.Sprintf("device%d", i))
		}
		out = append(out,
			first,
			asm.JNE.Imm(asm.R3, int32(d.Minor), next),
			asm.Mov.Imm(asm.R0, 1),
			asm.Return(),
		)
	}
	return out
}
