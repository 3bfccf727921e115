package holders_test

import (
	"testing"

	"outrigger.dev/agents/driver-loader/internal/holders"
)

func TestAHolderIsNamed(t *testing.T) {
	for want, h := range map[string]holders.Holder{
		"pod default/train, python3 (pid 7)":       {PID: 7, Command: "python3", Pod: holders.Pod{UID: "u", Namespace: "default", Name: "train"}, Container: "c"},
		"pod with uid u, python3 (pid 7)":          {PID: 7, Command: "python3", Pod: holders.Pod{UID: "u"}},
		"container abc, process (pid 7)":           {PID: 7, Container: "abc", Unit: "docker-abc.scope"},
		"unit dcgm.service, nv-hostengine (pid 7)": {PID: 7, Command: "nv-hostengine", Unit: "dcgm.service"},
		"Xorg (pid 7)": {PID: 7, Command: "Xorg"},
	} {
		if got := h.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
