package app_test

import (
	"testing"

	"outrigger.dev/images/internal/app"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

func TestCommandLine(t *testing.T) {
	cmdlinetest.Program{Name: "images", Usage: 1, Run: app.Main}.Tool(t, map[string]cmdlinetest.Case{
		"an unknown component":    {Line: "build --dir=/no/such", Code: 1, Want: []string{"/no/such"}},
		"charts without packages": {Line: "charts", Code: 1, Want: []string{"--help"}},
	})
}
