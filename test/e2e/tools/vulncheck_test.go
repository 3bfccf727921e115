package tools_test

import (
	"strings"
	"testing"
)

func TestVulnerabilitiesNeedAReason(t *testing.T) {
	const (
		finding  = "Vulnerability #1: GO-2026-0001\n    Too large headers in net/http\n    Found in: net/http@go1.26.8\n"
		accepted = "GO-2026-0001 | the server has no clients\n"
	)
	for name, c := range map[string]struct {
		// prints and exits say what the fake govulncheck does.
		prints string
		exits  string
		// reasons is the file with the accepted vulnerabilities.
		reasons string
		// wants are parts of the output. Without them, the check succeeds.
		wants []string
	}{
		"no findings":             {prints: "No vulnerabilities found.\n", exits: "0"},
		"a finding":               {prints: finding, exits: "3", wants: []string{finding, "hello calls code with the vulnerability GO-2026-0001", "GO-2026-0001 | REASON"}},
		"an accepted finding":     {prints: finding, exits: "3", reasons: accepted},
		"another finding":         {prints: strings.Replace(finding, "0001", "0002", 1), exits: "3", reasons: accepted, wants: []string{"vulnerability GO-2026-0002"}},
		"an accepted one is gone": {prints: "No vulnerabilities found.\n", exits: "0", reasons: accepted, wants: []string{"has GO-2026-0001, which no module has any more: remove the line"}},
		"a check that fails":      {prints: "no such database\n", exits: "1", wants: []string{"no such database"}},
		"no reason":               {prints: finding, exits: "3", reasons: "GO-2026-0001\n", wants: []string{"vulnerability GO-2026-0001"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCheckout(t, map[string]string{
				"go.work":                        "go 1.26\n\nuse (\n\t./hello\n)\n",
				"hello/go.mod":                   "module example.org/hello\n\ngo 1.26\n",
				"tools/govulncheck/accepted.txt": "# ID | REASON\n" + c.reasons,
				// The module of the database is this folder.
				"tools/govulncheck/go.mod": "module golang.org/x/vulndb\n\ngo 1.26\n",
				"bin/govulncheck":          "#!/bin/sh\ncat <<'END'\n" + c.prints + "END\nexit " + c.exits + "\n",
			}, "vulncheck.sh", "modules.sh", "compile.env")
			out, err := r.run(nil, "vulncheck.sh")
			if (err != nil) != (c.wants != nil) {
				t.Errorf("error %v: %s", err, out)
			}
			for _, want := range c.wants {
				if !strings.Contains(out, want) {
					t.Errorf("the output has no %q: %s", want, out)
				}
			}
		})
	}
}
