package tools_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tested is a checkout whose tests are run by a program "go" that only says which packages it got, whether
// with the race detector, and whether their tests start one after the other. It fails for the package FAILS,
// and sleeps if SLOW says how long. pkg/part starts goroutines, pkg/locks synchronizes them, pkg/tests starts
// some in its tests only, pkg/pure does not, and the tests of pkg/whole run a whole program.
func tested(t *testing.T) checkout {
	t.Helper()
	return newCheckout(t, map[string]string{
		"go.work":                "go 1.26\n\nuse (\n\t./charts\n\t./pkg\n\t./test/e2e\n\t./test/qemu\n)\n",
		"charts/go.mod":          "module outrigger.dev/charts\n",
		"pkg/go.mod":             "module outrigger.dev/pkg\n",
		"pkg/part/part.go":       "package part\n\nfunc F() {\n\tgo f()\n}\n",
		"pkg/tests/a_test.go":    "package tests_test\n\nfunc TestA() { running.Go(f) }\n",
		"pkg/locks/locks.go":     "package locks\n\nimport (\n\t\"sync\"\n)\n",
		"pkg/pure/pure.go":       "package pure\n\n// F does not go further().\nfunc F() {}\n",
		"pkg/pure/testdata/a.go": "package a\n\nfunc F() {\n\tgo f()\n}\n",
		"pkg/whole/main.go":      "package main\n\nfunc main() {\n\tdefer f()\n\tgo func() {}()\n}\n",
		"pkg/whole/main_test.go": "package main\n\nfunc TestMain(m *testing.M) { agenttest.Main(m, main) }\n",
		"test/e2e/go.mod":        "module outrigger.dev/test/e2e\n",
		"test/qemu/go.mod":       "module outrigger.dev/test/qemu\n",
		"fake/go": `#!/bin/bash
if [ "$1" = list ]; then
	[ -z "${BROKEN:-}" ] || { echo "a package is broken" >&2; exit 1; }
	case $PWD in
	*/pkg) printf "outrigger.dev/pkg/%s\n" locks part pure tests whole ;;
	*) printf "outrigger.dev/test/e2e%s\n" "" /tools /outages /demo ;;
	esac
	exit
fi
[[ " $* " == *" -race "* ]] && raced=true || raced=false
[[ " $* " == *flock* ]] && alone=true || alone=false
for package; do [[ "$package" == *" "* || "$package" != */* ]] || echo "{\"Action\":\"start\",\"Package\":\"$package\",\"Raced\":$raced,\"Alone\":$alone}"; done
[[ -z "${FAILS:-}" || " $* " != *"$FAILS"* ]] || exit 1
sleep "${SLOW:-0}"
`,
	}, "test-events.sh", "compile.env", "modules.sh")
}

func (c checkout) withFake() string {
	return "PATH=" + filepath.Join(c.root, "fake") + ":" + os.Getenv("PATH")
}

func TestPackagesThatCannotBeListedAreAFailure(t *testing.T) {
	c := tested(t)
	if out, err := c.run([]string{c.withFake(), "BROKEN=yes"}, "test-events.sh", "-tags", "e2e"); err == nil {
		t.Errorf("it succeeds without the tests on clusters: %s", out)
	}
}

// TestTestsThatFailAreAFailure has tests that fail in each line of work, also in one of two runs at a time.
func TestTestsThatFailAreAFailure(t *testing.T) {
	c := tested(t)
	for _, fails := range []string{"pkg/part", "pkg/pure", "./...", "./tools", "./stack", "./outages", "test/e2e/demo"} {
		if out, err := c.run([]string{c.withFake(), "FAILS=" + fails}, "test-events.sh", "-tags", "e2e"); err == nil {
			t.Errorf("it succeeds although the tests of %s fail: %s", fails, out)
		}
	}
	if out, err := c.run([]string{c.withFake(), "FAILS=another"}, "test-events.sh", "-tags", "e2e"); err != nil {
		t.Errorf("nothing fails: %v: %s", err, out)
	}
}

// TestEachPackageIsTestedOnce with the race detector if it starts goroutines, and otherwise, or as a
// whole program, without it: also when it is tested again.
func TestEachPackageIsTestedOnce(t *testing.T) {
	c := tested(t)
	is := func(pkg, raced string) string {
		return `{"Action":"start","Package":"` + pkg + `","Raced":` + raced + `,"Alone":false}`
	}
	alone := func(pkg string) string { return strings.Replace(is(pkg, "false"), `"Alone":false`, `"Alone":true`, 1) }
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"all": {nil, []string{
			is("./...", "false"), is("./...", "false"), // of charts and test/qemu
			is("./admission", "false"), is("./dashboards", "false"), is("./engines", "false"), is("./newagent", "false"),
			is("./nvidia", "false"), is("./outages", "false"), is("./schemas", "false"), is("./stack", "false"), is("./tools", "false"),
			is("outrigger.dev/pkg/locks", "true"), is("outrigger.dev/pkg/part", "true"), is("outrigger.dev/pkg/pure", "false"), is("outrigger.dev/pkg/tests", "false"), is("outrigger.dev/pkg/whole", "false"),
			alone("outrigger.dev/test/e2e"), alone("outrigger.dev/test/e2e/demo"),
		}},
		"a package again":         {[]string{"-test.run=^TestX$", "outrigger.dev/pkg/part"}, []string{is("outrigger.dev/pkg/part", "true")}},
		"a whole program again":   {[]string{"-test.run=^TestX$", "outrigger.dev/pkg/whole"}, []string{is("outrigger.dev/pkg/whole", "false")}},
		"a test of cluster again": {[]string{"-test.run=^TestX$", "outrigger.dev/test/e2e/demo"}, []string{is("outrigger.dev/test/e2e/demo", "false")}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := c.run([]string{c.withFake()}, "test-events.sh", append([]string{"-tags", "e2e"}, tc.args...)...)
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got := strings.Split(strings.TrimSpace(out), "\n")
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("it tests\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
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
