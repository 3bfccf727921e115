package health

import (
	"fmt"
	"time"
)

// class is the condition under which a GPU is healthy again after an XID.
type class int

// The classes, from the mildest to the gravest.
const (
	// quietClass only needs some time without another XID. The program on the GPU has ended, but
	// the GPU continues to work.
	quietClass class = iota
	// resetClass needs the GPU to be reset.
	resetClass
	// rebootClass needs a reset of the GPU that its driver cannot do: a reboot of the node, a power
	// cycle, or attaching the GPU again.
	rebootClass
)

// recoveryChanged is the XID that a driver sends when it asks for another recovery action
// than before.
const recoveryChanged = 154

// xids is a range of XIDs with their meaning.
type xids struct {
	first, last uint64
	name        string
}

// catalogue has the XIDs of drivers by class, according to NVIDIA's catalogue for Ampere and newer
// GPUs, column "Resolution Bucket (Immediate Action)":
// docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html.
func catalogue() map[class][]xids {
	return map[class][]xids{rebootClass: rebootXIDs(), resetClass: resetXIDs(), quietClass: quietXIDs()}
}

// rebootXIDs returns the XIDs with RESTART_BM, RESTART_VM and CHECK_MECHANICALS.
func rebootXIDs() []xids {
	return []xids{
		{54, 54, "auxiliary power is not connected"},
		{79, 79, "GPU has fallen off the bus"},
		{151, 151, "key rotation error"},
	}
}

// resetXIDs returns the XIDs with RESET_GPU, and with the workflows for XID 48 and NVLink.
func resetXIDs() []xids {
	return []xids{
		{46, 46, "GPU stopped processing"},
		{48, 48, "double bit ECC error"},
		{62, 62, "internal micro-controller halted"},
		{64, 64, "memory row could not be remapped"},
		{74, 74, "NVLink error"},
		{95, 95, "uncontained memory error"},
		{109, 109, "context switch timed out"},
		{110, 110, "security fault"},
		{119, 119, "GSP firmware does not answer"},
		{120, 120, "GSP firmware error"},
		{136, 136, "NVLink training failed"},
		{140, 140, "unrecovered ECC error"},
		{143, 143, "GPU could not be initialized"},
		{144, 150, "NVLink error"},
		{recoveryChanged, recoveryChanged, "recovery action changed"},
		{155, 155, "NVLink error"},
		{156, 156, "resource retired"},
		{158, 158, "fatal time-out"},
		{159, 159, "coherent interface error"},
	}
}

// quietXIDs returns the XIDs with RESTART_APP, IGNORE and UPDATE_SWFW, and the XIDs without an
// action. A driver that knows the latter also reports the recovery action that it needs.
func quietXIDs() []xids {
	return []xids{
		{8, 8, "GPU stopped processing"},
		{11, 11, "invalid push buffer"},
		{13, 13, "graphics engine exception"},
		{25, 25, "illegal push buffer"},
		{31, 31, "memory page fault"},
		{32, 32, "corrupted push buffer"},
		{37, 38, "driver firmware error"},
		{39, 41, "copy engine exception"},
		{43, 43, "GPU stopped processing"},
		{44, 44, "fault during context switch"},
		{45, 45, "preemptive clean-up"},
		{60, 60, "video processor exception"},
		{63, 63, "memory row remapped"},
		{66, 67, "illegal access by the driver"},
		{68, 68, "video decoder exception"},
		{69, 69, "graphics engine class error"},
		{70, 72, "copy engine error"},
		{75, 77, "copy engine error"},
		{78, 78, "vGPU start error"},
		{80, 80, "corrupted data sent to the GPU"},
		{82, 82, "JPEG engine error"},
		{83, 84, "video decoder error"},
		{85, 85, "copy engine error"},
		{86, 86, "optical flow engine exception"},
		{88, 89, "video decoder error"},
		{92, 92, "many single bit ECC errors"},
		{93, 93, "InfoROM is worn"},
		{94, 94, "contained memory error"},
		{96, 98, "video decoder error"},
		{99, 105, "JPEG engine error"},
		{121, 121, "chip-to-chip link error"},
		{126, 135, "copy engine error"},
		{137, 137, "NVLink privilege error"},
		{139, 139, "optical flow engine error"},
		{141, 141, "fast path error"},
		{142, 142, "video encoder error"},
		{157, 157, "resource could not be retired"},
		{160, 160, "memory channel retired"},
		{161, 161, "memory channel could not be retired"},
		{167, 167, "fatal PCIe time-out"},
		{168, 168, "reduced memory capacity"},
		{169, 169, "internal micro-controller halted"},
		{171, 171, "uncorrectable DRAM error"},
		{172, 172, "uncorrectable SRAM error"},
	}
}

// lookUpXID returns the class of an XID, and its name if the catalogue has it. An XID that is not
// in the catalogue has quietClass.
func lookUpXID(xid uint64) (class, string) {
	all := catalogue()
	for _, c := range []class{rebootClass, resetClass, quietClass} {
		for _, x := range all[c] {
			if xid >= x.first && xid <= x.last {
				return c, x.name
			}
		}
	}
	return quietClass, ""
}

// classOf returns the class of an XID.
func classOf(xid uint64) class {
	c, _ := lookUpXID(xid)
	return c
}

// describe returns the name of an XID and the condition under which the GPU is healthy again.
func describe(xid uint64, quiet time.Duration) string {
	c, name := lookUpXID(xid)
	text := fmt.Sprintf("xid %d", xid)
	if name != "" {
		text = fmt.Sprintf("%s (%s)", text, name)
	}
	switch c {
	case resetClass:
		return text + ": reset the GPU"
	case rebootClass:
		return text + ": reset the GPU or reboot the node"
	default:
		return fmt.Sprintf("%s: healthy again after %s without another", text, quiet)
	}
}
