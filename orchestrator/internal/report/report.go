// Package report prints a status as text.
package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"

	"outrigger.dev/orchestrator/internal/model"
)

// Write prints the stages, the condition Ready, and the problems with their fixes.
func Write(w io.Writer, s model.Status) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "STAGE\tSTATE\tNODES\tREADY\tFAILED\tWAITING\tVALIDATION\tMESSAGE")
	for _, stage := range s.Stages {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", stage.Name, stage.State, stage.Desired, stage.Ready, stage.Failed, stage.Waiting,
			validations(stage.Validations), stage.Message)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	fmt.Fprintf(&b, "\n%d of %d nodes with GPUs are ready for GPU pods.\n", s.ReadyNodes, s.GPUNodes)
	if c := meta.FindStatusCondition(s.Conditions, model.ConditionReady); c != nil && c.Message != "" {
		fmt.Fprintf(&b, "%s: %s\n", c.Reason, c.Message)
	}
	for _, p := range s.Problems {
		fmt.Fprintf(&b, "\n%s on %s since %s\n  %s\n", p.Cause, nodes(p), p.Since.UTC().Format("2006-01-02 15:04:05Z"), p.Message)
		if p.Fix != "" {
			fmt.Fprintf(&b, "  fix: %s\n", p.Fix)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	return nil
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
