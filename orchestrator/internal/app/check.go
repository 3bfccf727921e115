package app

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/pools"
	"outrigger.dev/orchestrator/internal/render"
)

// checkCommand prints all problems of the values, as Helm does when it installs them, and the values without effect.
func (s *settings) checkCommand(c *cli.Context) error {
	if err := s.read(s.kubernetes); err != nil {
		return err
	}
	problems, notes, err := charts.Check(s.release)
	if err != nil {
		return err
	}
	lines := strings.FieldsFunc(problems.Error(), func(r rune) bool { return r == '\n' })
	// The chart does not compare pools, and objects of the same name.
	if _, err = render.Stages(render.Config{Release: s.release, Kinds: pools.Kinds{}}); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	if err := printCheck(c.App.Writer, lines, notes); err != nil {
		return fmt.Errorf("print problems: %w", err)
	}
	if len(lines) > 0 {
		return errors.New("the chart rejects the values: each line above names one and its fix")
	}
	return nil
}

func printCheck(out io.Writer, lines []string, notes []charts.Problem) error {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(line + "\n")
	}
	if len(lines) == 0 {
		text.WriteString("The chart accepts the values.\n")
	}
	if len(notes) > 0 {
		text.WriteString("\n" + charts.IgnoredHeading)
	}
	for _, n := range notes {
		text.WriteString("  " + n.String() + "\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}
