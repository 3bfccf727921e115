package app

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/pools"
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
	if !strings.Contains("\n"+problems.Error(), "\n"+pools.Key) {
		// The chart cannot find errors such as pools that overlap.
		if _, err := pools.Parse(s.release.Values); err != nil {
			lines = append(lines, strings.Split(err.Error(), "\n")...)
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
