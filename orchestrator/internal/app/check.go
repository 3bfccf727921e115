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
	release, err := s.read(s.kubernetes)
	if err != nil {
		return err
	}
	problems, notes, err := charts.Check(release)
	if err != nil {
		return err
	}
	lines := strings.FieldsFunc(problems.Error(), func(r rune) bool { return r == '\n' })
	if !strings.Contains("\n"+problems.Error(), "\n"+pools.Key) {
		lines = append(lines, poolErrors(release.Values)...)
	}
	if err := printCheck(c.App.Writer, lines, notes); err != nil {
		return fmt.Errorf("print problems: %w", err)
	}
	if len(lines) > 0 {
		return errors.New("the chart rejects the values: each line above names one and its fix")
	}
	return nil
}

// poolErrors returns the errors in pools that the chart cannot find, such as pools that overlap.
func poolErrors(values map[string]any) []string {
	list, err := pools.Parse(values)
	if err = errors.Join(err, pools.Refuse(list)); err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
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
