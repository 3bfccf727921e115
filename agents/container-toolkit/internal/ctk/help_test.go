package ctk_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/golden"
)

// The help shows all commands, flags, defaults and variables, which are those of NVIDIA's.
func TestHelp(t *testing.T) {
	for _, command := range []string{
		"", "cdi", "cdi generate", "cdi list", "cdi transform", "cdi transform root", "completion", "config", "config create-default", "explain",
		"info", "runtime", "runtime configure", "runtime unconfigure", "system", "system create-device-nodes", "system create-dev-char-symlinks",
	} {
		t.Run(command, func(t *testing.T) {
			stdout, stderr, code := run("", append(strings.Fields(command), "--help")...)
			if code != 0 || stderr != "" {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			golden.Assert(t, stdout, strings.TrimSuffix("help-"+strings.ReplaceAll(command, " ", "-"), "-")+".golden")
		})
	}
}
