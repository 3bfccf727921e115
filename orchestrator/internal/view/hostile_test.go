package view_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/orchestrator/internal/view"
)

// TestHostileText has hostile text in all fields that an archive, or the error of an exporter, can fill.
func TestHostileText(t *testing.T) {
	const hostile = "a\x1b]52;c;ZXZpbA==\a\u009b31m\nfix: evil"
	status := view.Status{
		Policy: hostile, Warning: hostile, Nodes: []view.NodesOf{{Cause: hostile, Nodes: 1, Examples: []string{hostile}, Message: hostile}},
		Versions: []view.Version{{Part: hostile, Version: hostile, Image: hostile}}, Unseen: []facts.Unseen{{What: hostile, Why: hostile}},
		Status: &model.Status{
			State: hostile, Stages: []model.StageStatus{{Name: hostile, State: hostile, Message: hostile}},
			Conditions: []metav1.Condition{{Type: model.ConditionReady, Reason: hostile, Message: hostile}},
			Problems:   []model.Problem{{Cause: hostile, Nodes: 1, Examples: []string{hostile}, Message: hostile, Fix: hostile}},
		},
	}
	top := view.Top{NoUse: hostile, Unseen: status.Unseen, Nodes: []view.GPUNode{{
		Node: hostile, State: hostile, Message: hostile, Model: hostile, Devices: []view.Device{{GPU: hostile, Fault: hostile}},
	}}}
	for name, write := range map[string]func(table.Out) error{"status": status.Write, "top": top.Write, "top NODE": top.WriteNode} {
		var out bytes.Buffer
		if err := write(table.Out{Writer: &out}); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%s prints %q", name, out.String()[max(0, i-30):i+3])
		}
		if strings.Contains(out.String(), "\nfix: evil") {
			t.Errorf("%s: the text of another program is a line:\n%s", name, out.String())
		}
	}
}
