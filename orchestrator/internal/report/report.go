// Package report prints a status as text.
package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/table"
)

// Write prints the stages, the condition Ready, and the problems with their fixes.
func Write(o table.Out, s model.Status) error {
	if err := stages(s.Stages).Write(o); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d of %d nodes with GPUs are ready for GPU pods.\n", s.ReadyNodes, s.GPUNodes)
	if c := meta.FindStatusCondition(s.Conditions, model.ConditionReady); c != nil && c.Message != "" {
		fmt.Fprintf(&b, "%s: %s\n", clean(c.Reason), clean(c.Message))
	}
	for _, p := range s.Problems {
		fmt.Fprintf(&b, "\n%s on %s since %s\n  %s\n", o.Paint(table.Title, clean(p.Cause)), clean(nodes(p)), p.Since.UTC().Format("2006-01-02 15:04:05Z"), clean(p.Message))
		if p.Fix != "" {
			fmt.Fprintf(&b, "  fix: %s\n", clean(p.Fix))
		}
	}
	if _, err := io.WriteString(o, b.String()); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
}

// clean returns a text of the cluster, or of an archive, as one printable line.
func clean(text string) string { return health.SingleLine(text, health.MaxMessage) }

// stages returns the table of stages. A narrow terminal loses the message last, because it says what to do.
func stages(all []model.StageStatus) *table.Table {
	t := &table.Table{Columns: []table.Column{
		{Name: "STAGE", Min: 12},
		{Name: "STATE"},
		{Name: "NODES", Drop: 1},
		{Name: "READY"},
		{Name: "FAILED"},
		{Name: "WAITING", Drop: 2},
		{Name: "VALIDATION", Drop: 3},
		{Name: "MESSAGE", Min: 16},
	}}
	for _, s := range all {
		t.Add(s.Name, table.Cell{Text: s.State, Tone: tone(s.State)}, s.Desired, s.Ready, s.Failed, s.Waiting, validations(s.Validations), s.Message)
	}
	return t
}

func tone(state string) table.Tone {
	switch {
	case model.Broken(state):
		return table.Bad
	case state == model.Ready:
		return table.Good
	}
	return table.Warn
}

func validations(all []model.ValidationStatus) string {
	var parts []string
	for _, v := range all {
		parts = append(parts, v.State)
	}
	return cmp.Or(strings.Join(parts, ","), "-")
}

func nodes(p model.Problem) string {
	names := strings.Join(p.Examples, ", ")
	switch {
	case p.Nodes == 1 && names != "":
		return "node " + names
	case names == "":
		return fmt.Sprintf("%d nodes", p.Nodes)
	case p.Nodes > len(p.Examples):
		names += ", …"
	}
	return fmt.Sprintf("%d nodes (%s)", p.Nodes, names)
}
