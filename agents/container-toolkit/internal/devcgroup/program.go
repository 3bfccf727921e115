package devcgroup

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// The context of a program is struct bpf_cgroup_dev_ctx of linux/bpf.h, three 32-bit words. The
// lower half of the first word is the kind of device, and the upper half is the access.
const (
	offsetAccess = 0
	offsetMajor  = 4
	offsetMinor  = 8

	kindMask    = 0xffff
	kindChar    = 2
	accessShift = 16
	accessMknod = 1
)

// originalStart is the label of the first instruction of the replaced program.
const originalStart = "theirs"

// hiddenRegister is a register that only the kernel uses, for constants in hardened programs
// (sysctl net.core.bpf_jit_harden=2). The kernel rejects it in a program that is loaded.
const hiddenRegister = asm.RFP + 1

// extend returns a program that lets processes read and write the devices, and decides about all
// other accesses as the given program.
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

// loadable returns an instruction in a form that can be loaded. It drops the symbols and debug
// information of the kernel, which no longer fit, and replaces the hidden register. Jumps stay
// valid because they are relative.
func loadable(ins asm.Instruction, spare asm.Register) asm.Instruction {
	out := asm.Instruction{OpCode: ins.OpCode, Dst: ins.Dst, Src: ins.Src, Offset: ins.Offset, Constant: ins.Constant}
	for _, r := range []*asm.Register{&out.Dst, &out.Src} {
		if *r == hiddenRegister {
			*r = spare
		}
	}
	// The kernel also uses XOR to clear a register that has no value yet. Such a program could not be
	// loaded, so a move replaces the XOR.
	if out.OpCode.ALUOp() == asm.Xor && out.OpCode.Source() == asm.RegSource && out.Dst == out.Src {
		zero := asm.Mov.Imm
		if out.OpCode.Class() == asm.ALUClass {
			zero = asm.Mov.Imm32
		}
		return zero(out.Dst, 0)
	}
	return out
}

// spareRegister returns a register that the program does not use. It replaces the hidden register.
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

// repeatable returns an error for an instruction that the kernel shows in another form than it was
// loaded in.
func repeatable(ins asm.Instruction) error {
	switch {
	case ins.OpCode.JumpOp() == asm.Call:
		return fmt.Errorf("it calls a function, so the program cannot be extended")
	case ins.OpCode.IsDWordLoad() && ins.Src != asm.R0:
		return fmt.Errorf("it uses a map, so the program cannot be extended")
	}
	return nil
}

// prologue returns the instructions that allow the devices. They keep the context in R1.
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
