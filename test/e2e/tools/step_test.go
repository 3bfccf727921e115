// Package tools_test checks what people see of the scripts in tools.
package tools_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// repository is the root of the repository.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// step runs tools/step.sh with a folder for logs, and returns what it prints.
func step(t *testing.T, out string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(repository(t), "tools/step.sh"), args...)
	cmd.Env = append(append(os.Environ(), "OUT="+out), env...)
	printed, err := cmd.CombinedOutput()
	return string(printed), err
}

func TestAStepSaysWhatItDoesAndHowLongItTakes(t *testing.T) {
	out := t.TempDir()
	env := []string{"STEP=2", "STEPS=5"}
	first, err := step(t, out, env, "build kubernetes", "true")
	if err != nil || !strings.HasPrefix(first, "step 2 of 5: build kubernetes: compiles ") ||
		!strings.Contains(first, "(about 6 min the first time)\n") || !strings.Contains(first, "\n✓ build kubernetes (") {
		t.Errorf("first run: %v: %s", err, first)
	}
	if again, err := step(t, out, env, "build kubernetes", "true"); err != nil || !regexp.MustCompile(`\(\d+ s last time\)\n`).MatchString(again) {
		t.Errorf("second run: %v: %s", err, again)
	}
	if failed, err := step(t, out, env, "build runc", "sh", "-c", "echo the cause; exit 3"); err == nil ||
		!strings.Contains(failed, "✗ build runc failed") || !strings.Contains(failed, "exit 3") || !strings.Contains(failed, "\nthe cause\n") {
		t.Errorf("a step that fails: %v: %s", err, failed)
	}
	if other, err := step(t, out, []string{"STEP=", "STEPS="}, "try it", "true"); err != nil || !strings.HasPrefix(other, "try it\n✓ try it (") {
		t.Errorf("a step without a description and a number: %v: %s", err, other)
	}
}

// TestAStepShowsThatItWorks lets a command run until the step has shown its output twice.
// The pause after the second line is longer than the one before it.
func TestAStepShowsThatItWorks(t *testing.T) {
	out := t.TempDir()
	shown := filepath.Join(out, "shown")
	f, err := os.Create(shown) //nolint:forbidigo // the command writes into it
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.CommandContext(t.Context(), filepath.Join(repository(t), "tools/step.sh"), "work",
		"bash", "-c", `echo modules 3 of 7; until [ "$(grep -c "modules 3 of 7" "$0")" -ge 2 ]; do sleep 0.1; done`, shown)
	cmd.Env = append(os.Environ(), "OUT="+out, "STEP_EVERY=1")
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	printed, err := os.ReadFile(shown)
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	for line := range bytes.SplitSeq(printed, []byte("\n")) {
		var seconds int
		if _, err := fmt.Sscanf(string(line), "  … %d s  modules 3 of 7", &seconds); err == nil {
			at = append(at, seconds)
		}
	}
	if len(at) != 2 || at[1]-at[0] < 2 {
		t.Errorf("progress was shown after %v seconds, want two lines, the second at least 2 s after the first:\n%s", at, printed)
	}
}

// TestStepsOfEachTargetAreNumbered reads which steps make would run.
func TestStepsOfEachTargetAreNumbered(t *testing.T) {
	known, err := os.ReadFile(filepath.Join(repository(t), "tools/steps.txt"))
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(`STEP=(\d+) tools/step\.sh "([^"]+)"`)
	for _, target := range []string{"build", "charts", "check", "cluster", "demo", "images", "sim", "test"} {
		t.Run(target, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "make", "--dry-run", "--print-data-base", target)
			cmd.Dir = repository(t)
			// The make that runs this test has steps of its own.
			cmd.Env = without(os.Environ(), "STEPS", "STEP", "MAKEFLAGS", "MAKECMDGOALS")
			printed, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			steps := pattern.FindAllSubmatch(printed, -1)
			for i, step := range steps {
				if string(step[1]) != fmt.Sprint(i+1) {
					t.Errorf("step %d has the number %s", i+1, step[1])
				}
				if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(string(step[2])) + ` +\|`).Match(known) {
					t.Errorf("tools/steps.txt does not describe %q", step[2])
				}
			}
			if want := fmt.Sprintf("\nSTEPS := %d\n", len(steps)); len(steps) == 0 || !bytes.Contains(printed, []byte(want)) {
				t.Errorf("make has %d steps, want them announced as%s", len(steps), want)
			}
		})
	}
}

// without returns the environment without variables.
func without(env []string, names ...string) []string {
	var out []string
next:
	for _, e := range env {
		for _, name := range names {
			if strings.HasPrefix(e, name+"=") {
				continue next
			}
		}
		out = append(out, e)
	}
	return out
}
