package cmdline_test

import (
	"sync"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
)

// The race detector sees whether two command lines of a process share what they write.
func TestCommandLinesAreParsedAtOnce(t *testing.T) {
	var running sync.WaitGroup
	defer running.Wait()
	for range 4 {
		running.Go(func() {
			app := &cli.App{Name: "p", Action: func(*cli.Context) error { return nil }, Commands: []*cli.Command{{Name: "c", Action: func(*cli.Context) error { return nil }}}}
			if err := cmdline.Run(t.Context(), app, []string{"p", "c"}); err != nil {
				t.Error(err)
			}
		})
	}
}
