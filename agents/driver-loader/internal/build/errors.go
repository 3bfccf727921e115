package build

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/text"
)

// FailedError is the error of a failed build, with the last lines of its output.
type FailedError struct {
	cause.Cause
	// Tail holds the last lines of the output, with printable characters only.
	Tail []string
	// Log is the path of the file with the whole output.
	Log string
}

// Unwrap returns the cause.
func (e *FailedError) Unwrap() error { return e.Cause }

// failure derives the cause of a failed build from the lines of its output.
func failure(subject, log string, tail []string, exit error) *FailedError {
	return &FailedError{Tail: tail, Log: log, Cause: explain(cause.Cause{
		Code: cause.ModuleBuildFailed, Subject: subject, Text: exit.Error(),
		Fix: "see " + log + ", then try a newer driver, which may support this kernel, or the other kernel module type; the agent builds again when the driver, the kernel, its headers or the compiler change, or after SIGHUP",
	}, tail, exit)}
}

// explain returns the cause of a program that failed, derived from the lines of its output. If they do not explain the
// failure, it returns c.
func explain(c cause.Cause, lines []string, exit error) cause.Cause {
	// A shell exits with 128 and the number of the signal that has ended its program.
	const ofSignals = 128
	if ended, is := errors.AsType[*exec.ExitError](exit); is && (ended.ExitCode() < 0 || ended.ExitCode() > ofSignals) {
		c.Code, c.Fix = cause.ModuleBuildKilled, cause.ModuleBuildKilled.Row().Fix
	}
	for _, sign := range signs() {
		pattern := regexp.MustCompile(sign.pattern)
		for _, line := range lines {
			if !pattern.MatchString(line) {
				continue
			}
			c.Text = text.Cut(strings.TrimSpace(line), 300)
			if sign.code != "" {
				c.Code, c.Fix = sign.code, cmp.Or(sign.fix, sign.code.Row().Fix)
			}
			return c
		}
	}
	return c
}

// sign is a pattern of lines that explain why a build failed.
type sign struct {
	pattern string
	code    cause.Code
	// fix replaces the fix in the table of causes. Without a code, the cause keeps its code and its fix.
	fix string
}

// signs returns all signs, the most helpful first. Only the last sign can be an error in the sources.
func signs() []sign {
	return []sign{
		{pattern: `No space left on device|Disk quota exceeded`, code: cause.NoSpace},
		{pattern: `GLIBC_[0-9.]+' not found|GLIBCXX_\S+ not found`, code: cause.KernelHeadersForeign},
		{pattern: `signal terminated program|signal 9|[Kk]illed$|\*\*\* .*\] (Terminated|Hangup|Interrupt|Aborted|Segmentation fault|Bus error)`, code: cause.ModuleBuildKilled},
		{pattern: `out of memory|memory exhausted|Cannot allocate memory`, code: cause.ModuleBuildKilled},
		{pattern: `Resource temporarily unavailable|Too many open files`, code: cause.ModuleBuildKilled},
		{`Input/output error`, cause.ModuleBuildKilled, "check the disks of the store and of the headers: dmesg"},
		{pattern: `Read-only file system`, code: cause.FolderReadOnly},
		{`error while loading shared libraries: \S+`, cause.BuildToolsMissing, "add the library to the image, or use the agent's image for the node's distribution"},
		{pattern: `(gcc|clang|cc|ld|sh|bash|perl|awk|bc|strip|objtool): (command )?not found|make(\[\d+\])?: \S+: No such file or directory`, code: cause.BuildToolsMissing},
		{pattern: `(^|\s)(fatal )?error:|\*\*\* `},
	}
}

// explaining returns a pattern of all lines that explain why a build failed.
func explaining() *regexp.Regexp {
	patterns := []string{`error:|not found|Killed`}
	for _, s := range signs() {
		patterns = append(patterns, s.pattern)
	}
	return regexp.MustCompile(strings.Join(patterns, "|"))
}

func noTool(name string, err error) error {
	return cause.Cause{
		Code: cause.BuildToolsMissing, Subject: name, Text: fmt.Sprintf("cannot run the program: %v", err),
		Fix: "use the agent's image, which has the tools to build modules, or install make, gcc and binutils",
	}
}
