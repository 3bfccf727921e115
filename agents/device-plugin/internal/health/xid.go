package health

import (
	"fmt"
	"time"
)

// Class says what makes a GPU sound again after an XID.
type Class int

// The classes, from the mildest to the gravest.
const (
	// ClassQuiet needs nothing but that no other XID follows: the program that
	// was hit has ended, and the GPU goes on.
	ClassQuiet Class = iota
	// ClassReset needs the GPU to be reset.
	ClassReset
	// ClassReboot needs the GPU to be reset by more than its driver: with the
	// node, by its power, or by being attached again.
	ClassReboot
)

// recoveryChanged is the XID by which a driver tells that it asks for another
// recovery action than before.
const recoveryChanged = 154

// xids is a range of XIDs of one class.
type xids struct {
	first, last uint64
	class       Class
	name        string
}

// catalogue has the XIDs that drivers send, after NVIDIA's catalogue for Ampere
// and newer GPUs (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html,
// column "Resolution Bucket, Immediate Action"): RESET_GPU and the workflows for
// XID 48 and NVLink are ClassReset, RESTART_BM, RESTART_VM and CHECK_MECHANICALS
// are ClassReboot, and RESTART_APP and IGNORE are ClassQuiet. So is an XID
// without an action in the catalogue: a driver that knows it can also tell
// whether the GPU has to be recovered.
func catalogue() []xids {
	return []xids{
		{8, 8, ClassQuiet, "GPU stopped processing"},
		{11, 11, ClassQuiet, "invalid push buffer"},
		{13, 13, ClassQuiet, "graphics engine exception"},
		{25, 25, ClassQuiet, "illegal push buffer"},
		{31, 31, ClassQuiet, "memory page fault"},
		{32, 32, ClassQuiet, "corrupted push buffer"},
		{37, 38, ClassQuiet, "driver firmware error"},
		{39, 41, ClassQuiet, "copy engine exception"},
		{43, 43, ClassQuiet, "GPU stopped processing"},
		{44, 44, ClassQuiet, "fault during context switch"},
		{45, 45, ClassQuiet, "preemptive clean-up"},
		{46, 46, ClassReset, "GPU stopped processing"},
		{48, 48, ClassReset, "double bit ECC error"},
		{54, 54, ClassReboot, "auxiliary power is not connected"},
		{60, 60, ClassQuiet, "video processor exception"},
		{62, 62, ClassReset, "internal micro-controller halted"},
		{63, 63, ClassQuiet, "memory row remapped"},
		{64, 64, ClassReset, "memory row could not be remapped"},
		{66, 67, ClassQuiet, "illegal access by the driver"},
		{68, 68, ClassQuiet, "video decoder exception"},
		{69, 69, ClassQuiet, "graphics engine class error"},
		{70, 72, ClassQuiet, "copy engine error"},
		{74, 74, ClassReset, "NVLink error"},
		{75, 77, ClassQuiet, "copy engine error"},
		{78, 78, ClassQuiet, "vGPU start error"},
		{79, 79, ClassReboot, "GPU has fallen off the bus"},
		{80, 80, ClassQuiet, "corrupted data sent to the GPU"},
		{82, 82, ClassQuiet, "JPEG engine error"},
		{83, 84, ClassQuiet, "video decoder error"},
		{85, 85, ClassQuiet, "copy engine error"},
		{86, 86, ClassQuiet, "optical flow engine exception"},
		{88, 89, ClassQuiet, "video decoder error"},
		{92, 92, ClassQuiet, "many single bit ECC errors"},
		{93, 93, ClassQuiet, "InfoROM is worn"},
		{94, 94, ClassQuiet, "contained memory error"},
		{95, 95, ClassReset, "uncontained memory error"},
		{96, 98, ClassQuiet, "video decoder error"},
		{99, 105, ClassQuiet, "JPEG engine error"},
		{109, 109, ClassReset, "context switch timed out"},
		{110, 110, ClassReset, "security fault"},
		{119, 119, ClassReset, "GSP firmware does not answer"},
		{120, 120, ClassReset, "GSP firmware error"},
		{121, 121, ClassQuiet, "chip-to-chip link error"},
		{126, 135, ClassQuiet, "copy engine error"},
		{136, 136, ClassReset, "NVLink training failed"},
		{137, 137, ClassQuiet, "NVLink privilege error"},
		{139, 139, ClassQuiet, "optical flow engine error"},
		{140, 140, ClassReset, "unrecovered ECC error"},
		{141, 141, ClassQuiet, "fast path error"},
		{142, 142, ClassQuiet, "video encoder error"},
		{143, 143, ClassReset, "GPU could not be initialised"},
		{144, 150, ClassReset, "NVLink error"},
		{151, 151, ClassReboot, "key rotation error"},
		{recoveryChanged, recoveryChanged, ClassReset, "recovery action changed"},
		{155, 155, ClassReset, "NVLink error"},
		{156, 156, ClassReset, "resource retired"},
		{157, 157, ClassQuiet, "resource could not be retired"},
		{158, 158, ClassReset, "fatal time-out"},
		{159, 159, ClassReset, "coherent interface error"},
		{160, 160, ClassQuiet, "memory channel retired"},
		{161, 161, ClassQuiet, "memory channel could not be retired"},
		{167, 167, ClassQuiet, "fatal PCIe time-out"},
		{168, 168, ClassQuiet, "reduced memory capacity"},
		{169, 169, ClassQuiet, "internal micro-controller halted"},
		{171, 171, ClassQuiet, "uncorrectable DRAM error"},
		{172, 172, ClassQuiet, "uncorrectable SRAM error"},
	}
}

// lookUp returns the class of an XID, and its name if the catalogue has it.
func lookUp(xid uint64) (class Class, name string) {
	for _, e := range catalogue() {
		if xid >= e.first && xid <= e.last {
			return e.class, e.name
		}
	}
	return ClassQuiet, ""
}

// ClassOf returns the class of an XID.
func ClassOf(xid uint64) Class {
	class, _ := lookUp(xid)
	return class
}

// describe tells an XID, and what makes the GPU sound again.
func describe(xid uint64, quiet time.Duration) string {
	class, name := lookUp(xid)
	text := fmt.Sprintf("xid %d", xid)
	if name != "" {
		text = fmt.Sprintf("%s (%s)", text, name)
	}
	switch class {
	case ClassReset:
		return text + ": reset the GPU"
	case ClassReboot:
		return text + ": reset the GPU or reboot the node"
	default:
		return fmt.Sprintf("%s: healthy again after %s without another", text, quiet)
	}
}
