package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// printPlan prints the changes of each GPU.
func printPlan(w io.Writer, p apply.Plan, draw bool) error {
	var out bytes.Buffer
	for i, c := range p.GPUs {
		if i > 0 {
			fmt.Fprintln(&out)
		}
		fmt.Fprintf(&out, "GPU %d: %s, %s\n", c.GPU.Index, c.GPU.Name, c.GPU.UUID)
		printChange(&out, c)
		if !draw || !c.Target.Enabled {
			continue
		}
		if c.GPU.Enabled && c.Needed() {
			fmt.Fprintln(&out, "  layout now:")
			if err := plan.Draw(&out, c.GPU.Board, c.GPU.Layout); err != nil {
				return err
			}
			fmt.Fprintln(&out, "  layout then:")
		}
		if err := plan.Draw(&out, c.GPU.Board, c.Target.Layout); err != nil {
			return err
		}
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("print plan: %w", err)
	}
	return nil
}

func printChange(out io.Writer, c apply.Change) {
	if !c.Needed() {
		fmt.Fprintf(out, "  stays: %s\n", describeState(c.GPU.State))
		return
	}
	fmt.Fprintf(out, "  now:   %s\n", describeState(c.GPU.State))
	fmt.Fprintf(out, "  then:  %s\n", describeState(c.Target))
	n := 0
	step := func(what string) {
		n++
		fmt.Fprintf(out, "  %4d.  %s\n", n, what)
	}
	mode := c.Mode || c.Reset
	for _, s := range c.Steps {
		if creates := s.Op == mig.CreateInstance || s.Op == mig.CreateCompute; creates && mode {
			printMode(c, step)
			mode = false
		}
		step(s.String())
	}
	if mode {
		printMode(c, step)
	}
	for _, h := range c.Holders {
		fmt.Fprintf(out, "  in use by: %s\n", h)
	}
}

func printMode(c apply.Change, step func(string)) {
	if c.Mode {
		step("turn the MIG mode " + onOff(c.Target.Pending))
	}
	if c.Reset {
		step("reset the GPU")
	}
}

// describeState describes a state in a few words.
func describeState(s mig.State) string {
	switch {
	case s.Enabled != s.Pending:
		return fmt.Sprintf("MIG mode %s, and %s after a reset", onOff(s.Enabled), onOff(s.Pending))
	case !s.Enabled:
		return "MIG mode off"
	default:
		return plan.Text(s.Layout.Devices())
	}
}

// changeFields is the JSON form of a change.
type changeFields struct {
	Index   int        `json:"index"`
	UUID    gpu.UUID   `json:"uuid"`
	Name    string     `json:"name"`
	Needed  bool       `json:"needed"`
	Mode    bool       `json:"mode"`
	Reset   bool       `json:"reset"`
	Now     mig.State  `json:"now"`
	Then    mig.State  `json:"then"`
	Steps   []mig.Step `json:"steps"`
	Holders []string   `json:"holders"`
}

// printPlanJSON prints a plan as JSON.
func printPlanJSON(w io.Writer, p apply.Plan) error {
	out := make([]changeFields, 0, len(p.GPUs))
	for _, c := range p.GPUs {
		f := changeFields{
			Index: c.GPU.Index, UUID: c.GPU.UUID, Name: c.GPU.Name, Needed: c.Needed(), Mode: c.Mode, Reset: c.Reset,
			Now: c.GPU.State, Then: c.Target, Steps: append([]mig.Step{}, c.Steps...), Holders: []string{},
		}
		for _, h := range c.Holders {
			f.Holders = append(f.Holders, h.String())
		}
		out = append(out, f)
	}
	return printJSON(w, out)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return nil
}
