package tools_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tested is a checkout whose tests are run by a program "go" that only says which packages it got,
// and sleeps if SLOW says how long.
func tested(t *testing.T) checkout {
	t.Helper()
	return newCheckout(t, map[string]string{
		"go.work":         "go 1.26\n\nuse (\n\t./pkg\n\t./test/e2e\n)\n",
		"pkg/go.mod":      "module outrigger.dev/pkg\n",
		"test/e2e/go.mod": "module outrigger.dev/test/e2e\n",
		"fake/go": `#!/bin/bash
if [ "$1" = list ]; then
	[ -z "${BROKEN:-}" ] || { echo "a package is broken" >&2; exit 1; }
	printf "outrigger.dev/test/e2e%s\n" "" /tools /demo
	exit
fi
for package; do [[ "$package" != */* ]] || echo "{\"Action\":\"start\",\"Package\":\"$package\"}"; done
sleep "${SLOW:-0}"
`,
	}, "test-events.sh", "modules.sh")
}

func (c checkout) withFake() string {
	return "PATH=" + filepath.Join(c.root, "fake") + ":" + os.Getenv("PATH")
}

func TestPackagesThatCannotBeListedAreAFailure(t *testing.T) {
	c := tested(t)
	out, err := c.run([]string{c.withFake()}, "test-events.sh", "-tags", "e2e")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, event := range []string{`"./..."`, `"./tools"`, `"outrigger.dev/test/e2e"`, `"outrigger.dev/test/e2e/demo"`} {
		if strings.Count(out, event) != 1 {
			t.Errorf("it does not print one event of %s: %s", event, out)
		}
	}
	if strings.Contains(out, `"outrigger.dev/test/e2e/tools"`) {
		t.Errorf("tests without a cluster run twice: %s", out)
	}
	if out, err := c.run([]string{c.withFake(), "BROKEN=yes"}, "test-events.sh", "-tags", "e2e"); err == nil {
		t.Errorf("it succeeds without the tests on clusters: %s", out)
	}
}

// TestTestsEndWithTheirReader has tests that take longer than this one waits.
func TestTestsEndWithTheirReader(t *testing.T) {
	c := tested(t)
	for name, end := range map[string]func(*exec.Cmd, *os.File) error{
		"a signal":                 func(cmd *exec.Cmd, _ *os.File) error { return cmd.Process.Signal(syscall.SIGTERM) },
		"the end of what reads it": func(_ *exec.Cmd, r *os.File) error { return r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer // which all processes have open
			cmd := exec.CommandContext(ctx, filepath.Join(c.root, "tools/test-events.sh"), "-tags", "e2e")
			cmd.Env = append(os.Environ(), c.withFake(), "SLOW=90")
			cmd.Stdout, cmd.Stderr, cmd.WaitDelay = w, &errs, time.Second
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = w.Close()
			if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := end(cmd, r); err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait()
			if err == nil || ctx.Err() != nil || strings.Contains(err.Error(), "WaitDelay") {
				t.Errorf("tests are left, or have passed: %v: %s", err, errs.String())
			}
		})
	}
}
