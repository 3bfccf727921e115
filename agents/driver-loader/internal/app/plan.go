package app

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/license"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/preflight"
)

// plan prints the checks of the node, and the next step.
func (s *settings) plan(c *cli.Context, format string) error {
	l := loader.New(s.config, s.machine)
	o, observed := l.Observe(c.Context)
	desired, err := s.observeDesired()
	if err != nil {
		return err
	}
	facts := preflight.Observe(c.Context, l, s.config, o)
	if facts.Licensed = s.daemons.Licensed(); facts.Licensed && o.Running.Version != "" {
		facts.Products, facts.LicenseErr = license.Read(c.Context, s.daemons.Query)
	}
	facts.NextKernel = l.NextKernel(c.Context, o, desired)
	verdict := preflight.Derive(o, desired, facts)
	verdict.Next = l.Next(c.Context, o, desired)
	if observed != nil {
		s.config.Log.Warn("cannot observe all of the node", "err", observed)
	}
	if format == "json" {
		out := json.NewEncoder(c.App.Writer)
		out.SetIndent("", "  ")
		return out.Encode(verdict)
	}
	return printVerdict(c.App.Writer, verdict)
}

func printVerdict(out io.Writer, v preflight.Verdict) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CHECK\tSTATE\tDETAIL")
	for _, check := range v.Checks {
		fmt.Fprintf(table, "%s\t%s\t%s\n", check.Name, check.State, check.Text)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	step := v.Next
	step.Causes = v.Problems()
	fmt.Fprintln(out)
	if _, err := fmt.Fprintf(out, "next: %s\n", step); err != nil {
		return err
	}
	return printCauses(out, step, "\n  fix: ")
}

// printCauses prints the causes that prevent a step. beforeFix separates a cause from its fix.
func printCauses(out io.Writer, step loader.Step, beforeFix string) error {
	for _, cause := range step.Causes {
		text := fmt.Sprintf("%s: %s: %s", cause.Code, cause.Subject, cause.Text)
		if cause.Fix != "" {
			text += beforeFix + cause.Fix
		}
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return nil
}
