package progress_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/driver-loader/internal/progress"
)

func TestEachStepAndTenthIsLogged(t *testing.T) {
	var out bytes.Buffer
	report := progress.Log(slog.New(slog.NewTextHandler(&out, nil)), "building")
	report(progress.Progress{Step: "headers"})
	report(progress.Progress{Step: "headers", Note: "from repositories"})
	for done := range 96 {
		report(progress.Progress{Step: "compile", Done: done, Total: 95})
	}
	report(progress.Progress{Step: "compile", Done: 95, Total: 95})
	for done := range 96 { // make runs several programs at once, so that two steps alternate
		report(progress.Progress{Step: "conftest", Done: done, Total: 95})
		report(progress.Progress{Step: "compile", Done: 95, Total: 95})
	}
	report(progress.Progress{Step: "sign", Elapsed: time.Minute})
	report(progress.Progress{Step: "sign", Elapsed: time.Second}) // another build
	if lines := strings.Count(out.String(), "building"); lines != 2+12+12+1+1 {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
	for _, want := range []string{`"headers from repositories, 0s"`, `"compile 9/95, 0s"`, `"compile 95/95, 0s"`} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("not one line with %s:\n%s", want, out.String())
		}
	}
}

func TestProgressIsReadable(t *testing.T) {
	for want, p := range map[string]progress.Progress{
		"compile 12/80, 35s":               {Step: "compile", Done: 12, Total: 80, Elapsed: 35 * time.Second},
		"copy 412/1398 MiB, 12s":           {Step: "copy", Done: 412 << 20, Total: 1398 << 20, Bytes: true, Elapsed: 12345678901},
		"compile 1/9, 1m0s, about 8m left": {Step: "compile", Done: 1, Total: 9, Elapsed: time.Minute, Left: 8 * time.Minute},
		"link 1/2, 2m0s, about 1m30s left": {Step: "link", Done: 1, Total: 2, Elapsed: 2 * time.Minute, Left: 91 * time.Second},
		"link 2/2, 2m0s, about 10s left":   {Step: "link", Done: 2, Total: 2, Elapsed: 2 * time.Minute, Left: time.Second},
		"store precompiled, 0s":            {Step: "store", Note: "precompiled"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
