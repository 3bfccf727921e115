package app_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/app"
	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/pkg/agent/agenttest"
)

const page = "../../../../docs/mig-manager-reference.md"

func TestFlagsAreDocumented(t *testing.T) { agenttest.Documented(t, app.App(), page) }

// TestCommandsAreDocumented looks for each command, and for the variables of its flags.
func TestCommandsAreDocumented(t *testing.T) {
	text := documentation(t)
	for _, c := range app.Parted().Commands {
		if !strings.Contains(text, "\n| `"+c.Name) && !strings.Contains(text, ", `"+c.Name) {
			t.Errorf("no row of %s has the command %s", page, c.Name)
		}
		for _, f := range c.Flags {
			if name := "`--" + f.Names()[0] + "`"; !strings.Contains(text, name) {
				t.Errorf("%s does not name the flag %s of %s", page, name, c.Name)
			}
		}
	}
}

// The page has the table of boards.
func TestBoardsAreDocumented(t *testing.T) {
	want := "| board | PCI devices | profiles × maximum number on a GPU |\n|---|---|---|\n"
	for _, p := range boards.All() {
		var devices, profiles []string
		for _, d := range p.DeviceIDs {
			devices = append(devices, fmt.Sprintf("%04X", d>>16))
		}
		for _, profile := range p.Board.Profiles {
			one := "`" + profile.Name.String() + "`"
			if n := profile.Max; n > 1 {
				one += fmt.Sprintf(" × %d", n)
			}
			profiles = append(profiles, one)
		}
		want += fmt.Sprintf("| `%s` | %s | %s |\n", p.Name, strings.Join(devices, ", "), strings.Join(profiles, ", "))
	}
	agenttest.Table(t, page, "Profiles of the boards", want)
}

func documentation(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(page)
	assert.NilError(t, err)
	return string(data)
}
