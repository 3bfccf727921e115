package cmdline_test

import (
	"bytes"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
)

func TestHelpHasCategoriesAndExamples(t *testing.T) {
	var stdout bytes.Buffer
	app := &cli.App{
		Name: "tool", Usage: "do things", Writer: &stdout, ErrWriter: &stdout, HideVersion: true,
		Description: cmdline.Describe("It does them once.", cmdline.Example{Purpose: "Do all things", Line: "tool --file all"}),
		Flags: cmdline.Under("Things",
			&cli.PathFlag{Name: "file", Usage: "`FILE` with things"},
			&cli.StringSliceFlag{Name: "names", Usage: "`NAMES` of things"},
			&cli.BoolFlag{Name: "quiet", Usage: "say nothing", Category: "Output"},
		),
	}
	if code := cmdline.Exec(t.Context(), app, []string{"tool", "--help"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, stdout.String())
	}
	const want = `NAME:
   tool - do things

USAGE:
   tool [global options] command [command options]

DESCRIPTION:
   It does them once.

   Examples:
     # Do all things
     tool --file all

COMMANDS:
   completion  print a script that completes commands and flags in a shell: bash, zsh or fish
   help, h     Shows a list of commands or help for one command

GLOBAL OPTIONS:
   --help, -h  show help

   Output

   --quiet  say nothing (default: false)

   Things

   --file FILE                      FILE with things
   --names NAMES [ --names NAMES ]  NAMES of things

`
	if got := stdout.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
