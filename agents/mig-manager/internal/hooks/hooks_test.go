package hooks_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/hooks"
	"outrigger.dev/pkg/agent/agenttest"
)

func read(t *testing.T, data string) hooks.File {
	t.Helper()
	f, err := hooks.Read("h.yaml", []byte(data))
	assert.NilError(t, err)
	return f
}

// runner returns a Runner, and what it has logged.
func runner(f hooks.File) (hooks.Runner, *bytes.Buffer) {
	log := &bytes.Buffer{}
	return hooks.Runner{File: f, Env: map[string]string{"MIG_PARTED_SELECTED_CONFIG": "x"}, Log: slog.New(slog.NewTextHandler(log, nil))}, log
}

func TestRead(t *testing.T) {
	got := read(t, `
version: v1
hooks:
  apply-start:
  - workdir: /opt
    command: /bin/sh
    args: [-x, -c, source hooks.sh]
    envs: {A: b, N: 1}
  apply-exit:
  - command: /bin/true
`)
	want := hooks.File{
		hooks.ApplyStart: {{
			Command: "/bin/sh", Args: []string{"-x", "-c", "source hooks.sh"}, Dir: "/opt",
			Env: map[string]string{"A": "b", "N": "1"}, At: "h.yaml:5: hooks.apply-start[0]",
		}},
		hooks.ApplyExit: {{Command: "/bin/true", Env: map[string]string{}, At: "h.yaml:10: hooks.apply-exit[0]"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	for _, none := range []string{"version: v1\n", "version: v1\nhooks:\n", "version: v1\nhooks: {apply-start: []}\n"} {
		if got := read(t, none); len(got) > 0 {
			t.Errorf("%q has hooks: %v", none, got)
		}
	}
}

func TestReadRejects(t *testing.T) {
	_, err := hooks.Read("h.yaml", []byte("hooks:\n  apply-begin:\n  - command: a\n  apply-exit:\n  - args: a\n    env: {}\n  - command: [a]\n"))
	want := "h.yaml:1: version: is missing: must be v1\n" +
		"h.yaml:2: hooks.apply-begin: unknown key: must be one of apply-start, pre-apply-mode, pre-apply-config, apply-exit\n" +
		"h.yaml:5: hooks.apply-exit[0].command: is missing: must be the path of a program\n" +
		"h.yaml:5: hooks.apply-exit[0].args: invalid value \"a\": must be a list\n" +
		"h.yaml:6: hooks.apply-exit[0].env: unknown key: did you mean envs?\n" +
		"h.yaml:7: hooks.apply-exit[1].command: invalid value (a list): must be a text"
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestAHookGetsItsVariablesAndNoOthers(t *testing.T) {
	t.Setenv("SECRET", "of this process")
	dir := t.TempDir()
	r, log := runner(read(t, `
version: v1
hooks:
  apply-start:
  - command: /bin/sh
    args: [-c, "/usr/bin/env > env; echo one; echo 'a  two' >&2"]
    envs: {A: b, MIG_PARTED_SELECTED_CONFIG: other}
    workdir: `+dir+"\n"))
	assert.NilError(t, r.Run(t.Context(), hooks.ApplyStart))
	env, err := os.ReadFile(filepath.Join(dir, "env"))
	assert.NilError(t, err)
	var got []string
	for line := range strings.Lines(string(env)) {
		if !strings.HasPrefix(line, "PWD=") && !strings.HasPrefix(line, "_=") && !strings.HasPrefix(line, "SHLVL=") { // of the shell
			got = append(got, strings.TrimSpace(line))
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"A=b", "MIG_PARTED_SELECTED_CONFIG=x"}, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	for _, want := range []string{`msg="hook output" hook=apply-start command=/bin/sh line=one`, `line="a  two"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log)
		}
	}
}

func TestAHookThatFailsIsTheLast(t *testing.T) {
	const two = `
version: v1
hooks:
  POINT:
  - {command: /bin/sh, args: [-c, echo no; exit 3]}
  - {command: /bin/sh, args: [-c, echo second]}
  - {command: /nowhere}
`
	r, log := runner(read(t, strings.ReplaceAll(two, "POINT", "pre-apply-mode")))
	err := r.Run(t.Context(), hooks.PreApplyMode)
	want := "hook pre-apply-mode /bin/sh: exit status 3: see its output in the log, then fix the hook, or remove it from h.yaml:5: hooks.pre-apply-mode[0]"
	assert.Error(t, err, want)
	if strings.Contains(log.String(), "line=second") {
		t.Error("the hook after the one that failed ran")
	}

	r, log = runner(read(t, strings.ReplaceAll(two, "POINT", "apply-exit")))
	ended, end := context.WithCancel(t.Context())
	end()
	err = r.Run(ended, hooks.ApplyExit)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "hook apply-exit /nowhere: fork/exec /nowhere: no such file") {
		t.Errorf("the errors of apply-exit are %v", err)
	}
	if !strings.Contains(log.String(), "line=second") {
		t.Error("a hook of apply-exit did not run: one before it failed, and the context had ended")
	}
}

func TestAHookEndsWithAllItHasStarted(t *testing.T) {
	const hook = `
version: v1
hooks:
  apply-start:
  - {command: /bin/sh, args: [-c, "/bin/sleep 1000 & echo $!; wait"]}
`
	for name, tc := range map[string]struct {
		limit time.Duration
		want  string
	}{
		"at its limit":         {time.Millisecond * 300, "it took longer than 300ms"},
		"when the apply is to": {0, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r, _ := runner(read(t, hook))
			child := 0
			r.Limit, r.Log = tc.limit, slog.New(handler(func(a slog.Attr) {
				if a.Key == "line" {
					child, _ = strconv.Atoi(a.Value.String())
					if tc.limit == 0 {
						cancel()
					}
				}
			}))
			err := r.Run(ctx, hooks.ApplyStart)
			cancel()
			assert.ErrorContains(t, err, tc.want)
			if child == 0 {
				t.Fatal("the hook wrote nothing")
			}
			agenttest.Poll(t, "the end of the process of the hook", func() bool { return !alive(child) })
		})
	}
}

// TestAHookThatDoesNotRun has programs that cannot be started, and ones that are ended.
func TestAHookThatDoesNotRun(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	assert.NilError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o644))
	for name, tc := range map[string]struct{ hook, want string }{
		"not executable": {"{command: " + script + "}", "fork/exec " + script + ": permission denied"},
		"a folder":       {"{command: " + dir + "}", "fork/exec " + dir + ": permission denied"},
		"no such folder": {"{command: /bin/true, workdir: /none}", "workdir: stat /none: no such file or directory"},
		"no such name":   {"{command: no-such-program}", "executable file not found in $PATH"},
		"killed":         {"{command: /bin/sh, args: [-c, kill -9 $$]}", "signal: killed"},
		"ignores SIGTERM": {
			"{command: /bin/sh, args: [-c, \"trap '' TERM; while :; do /bin/sleep 0.1; done\"]}",
			"it took longer than 300ms",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := runner(read(t, "version: v1\nhooks:\n  pre-apply-config:\n  - "+tc.hook+"\n"))
			r.Limit = 300 * time.Millisecond
			if name != "ignores SIGTERM" {
				r.Limit = time.Minute
			}
			err := r.Run(t.Context(), hooks.PreApplyConfig)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "h.yaml:4: hooks.pre-apply-config[0]") {
				t.Errorf("Run() = %v, want %s", err, tc.want)
			}
		})
	}
}

// TestOutputOfAHook: much of it neither holds up the hook nor fills the log.
func TestOutputOfAHook(t *testing.T) {
	r, log := runner(read(t, `
version: v1
hooks:
  apply-start:
  - {command: /bin/sh, args: [-c, "/usr/bin/head -c 1000000 /dev/zero; echo; printf 'a\\033[31mb\\n'; /usr/bin/yes | /usr/bin/head -n 1000000; echo last"]}
`))
	begun := time.Now()
	assert.NilError(t, r.Run(t.Context(), hooks.ApplyStart))
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	if log.Len() > 2<<20 {
		t.Errorf("the log has %d bytes", log.Len())
	}
	if strings.ContainsAny(log.String(), "\x1b\x00") {
		t.Error("the log has control characters")
	}
	if want := "the output of the hook is too long"; strings.Count(log.String(), want) != 1 {
		t.Errorf("the log has not %q once:\n%s", want, log.String()[max(0, log.Len()-500):])
	}
}

// TestReadFile has files that root must not run programs from.
func TestReadFile(t *testing.T) {
	const text = "version: v1\nhooks: {apply-exit: [{command: /bin/true}]}\n"
	for name, tc := range map[string]struct {
		change func(file string) error
		want   string
	}{
		"of root":          {func(string) error { return nil }, ""},
		"writable for all": {func(file string) error { return os.Chmod(file, 0o646) }, "hooks.yaml: every user can change it, but only root may: chmod o-w"},
		"a pipe":           {func(file string) error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) }, "not a regular file"},
		"missing":          {os.Remove, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "hooks.yaml")
			assert.NilError(t, errors.Join(os.WriteFile(file, []byte(text), 0o600), tc.change(file)))
			f, err := hooks.ReadFile(file)
			if tc.want == "" && (err != nil || len(f[hooks.ApplyExit]) != 1) {
				t.Errorf("ReadFile() = %v, %v", f, err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("ReadFile() = %v, want %s", err, tc.want)
			}
		})
	}
}

// alive reports whether a process runs that is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ") && syscall.Kill(pid, 0) == nil
}

// handler calls itself with each attribute of a record.
type handler func(slog.Attr)

func (handler) Enabled(context.Context, slog.Level) bool { return true }
func (h handler) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h handler) WithGroup(string) slog.Handler          { return h }
func (h handler) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool { h(a); return true })
	return nil
}
