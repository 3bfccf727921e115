package holders

import (
	"cmp"
	"fmt"
)

// String names the process for a person: "pod default/train, python3 (pid 4711)".
func (h Holder) String() string {
	process := fmt.Sprintf("%s (pid %d)", cmp.Or(h.Command, "process"), h.PID)
	switch {
	case h.Pod.Name != "":
		return "pod " + h.Pod.Namespace + "/" + h.Pod.Name + ", " + process
	case h.Pod.UID != "":
		return "pod with uid " + h.Pod.UID + ", " + process
	case h.Container != "":
		return "container " + h.Container + ", " + process
	case h.Unit != "":
		return "unit " + h.Unit + ", " + process
	}
	return process
}
