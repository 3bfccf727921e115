package app_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"outrigger.dev/orchestrator/internal/app"
	"outrigger.dev/pkg/agent/agenttest"
)

func values(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// words returns the first words of lines, sorted and without duplicates.
func words(text string) string {
	var first []string
	for line := range strings.Lines(text) {
		first = append(first, strings.Fields(line)[0])
	}
	slices.Sort(first)
	return strings.Join(slices.Compact(first), " ")
}

func TestApp(t *testing.T) {
	if err := agenttest.CheckApp(app.App()); err != nil {
		t.Error(err)
	}
	if err := agenttest.CheckHelp(app.App()); err != nil {
		t.Error(err)
	}
}

func TestValuesOfSeveralFiles(t *testing.T) {
	first := values(t, "devicePlugin: {logLevel: debug, logFormat: json}\ntoolkit: {enabled: false}")
	second := values(t, "devicePlugin: {logLevel: warn}")
	var out strings.Builder
	cmd := agenttest.Command(t, nil, "render", "-f", first, "-f", second)
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"value: warn", "value: json"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no object has %q", want)
		}
	}
	for _, not := range []string{"value: debug", "Stage: container-toolkit"} {
		if strings.Contains(out.String(), not) {
			t.Errorf("an object has %q", not)
		}
	}
	agenttest.Fails(t, agenttest.Command(t, nil, "render", "-f", values(t, "a: 1\na: 2")), 1, "read values", "already set")
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	agenttest.Fails(t, agenttest.Command(t, nil, "render", "-f", pipe), 1, "read values", "it is a named pipe")
	agenttest.Fails(t, agenttest.Command(t, nil, "render", "-f", "/dev/zero"), 1, "read values", "it is a device")
	for _, file := range []string{"-", "/dev/stdin"} {
		render := agenttest.Command(t, nil, "render", "-f", file)
		render.Stdin = strings.NewReader("devicePlugin: {logLevel: warn}")
		if out, err := render.CombinedOutput(); err != nil || !strings.Contains(string(out), "value: warn") {
			t.Errorf("render -f %s: %v: %.300s", file, err, out)
		}
	}
}

// unreachable returns a kubeconfig with the address of no API server.
func unreachable(t *testing.T) string {
	return values(t, `{"apiVersion": "v1", "kind": "Config", "current-context": "a",
		"clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
		"contexts": [{"name": "a", "context": {"cluster": "a"}}]}`)
}

func TestWrongInputIsNamed(t *testing.T) {
	away := unreachable(t)
	fix := "reach the API server http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; check that it runs"
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a list as values":                      {[]string{"render", "-f", values(t, "- a")}, 1, "values.yaml: it has no keys; write values as in global:"},
		"a release that is no name":             {[]string{"render", "--release=A B"}, 2, `flag --release (environment variable RELEASE): invalid value "A B"`},
		"a namespace that is no name":           {[]string{"render", "--namespace=Bad_NS"}, 2, `flag --namespace (environment variable OPERATOR_NAMESPACE): invalid value "Bad_NS"`},
		"a namespace of status":                 {[]string{"status", "--namespace=Bad_NS", "--kubeconfig=" + away}, 2, "flag --namespace"},
		"an apply that may take no time":        {[]string{"apply", "--timeout=0s", "--kubeconfig=" + away}, 2, `flag --timeout (environment variable TIMEOUT): invalid value "0s"`},
		"a delete that may take no time":        {[]string{"delete", "--timeout=-1s", "--kubeconfig=" + away}, 2, `flag --timeout (environment variable TIMEOUT): invalid value "-1s"`},
		"apply without an API server":           {[]string{"apply", "--kubeconfig=" + away}, 1, fix},
		"apply --dry-run without an API server": {[]string{"apply", "--dry-run", "--kubeconfig=" + away}, 1, fix},
		"status without an API server":          {[]string{"status", "--kubeconfig=" + away}, 1, fix},
		"delete without an API server":          {[]string{"delete", "--verify", "--kubeconfig=" + away}, 1, fix},
	} {
		t.Run(name, func(t *testing.T) {
			var errs strings.Builder
			cmd := agenttest.Command(t, nil, c.args...)
			cmd.Stderr = &errs
			err := cmd.Run()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != c.code {
				t.Errorf("ended with %v, want exit code %d", err, c.code)
			}
			if got := errs.String(); !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
				t.Errorf("it said\n%s\nwant one line with %q", got, c.want)
			}
		})
	}
}
