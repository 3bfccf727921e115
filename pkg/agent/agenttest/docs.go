package agenttest

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/config"
)

// Documented checks that the first page names every flag that --help shows, and
// that the tables of the pages have its variables and its key in the config file.
// A page may write keys without "flags.", and variables without GFD_.
func Documented(t testing.TB, app agent.App, pages ...string) {
	t.Helper()
	var help, errs bytes.Buffer
	if code := agent.Exec(t.Context(), app, []string{app.Name, "--help"}, &help, &errs); code != 0 {
		t.Fatalf("--help: exit code %d: %s", code, errs.String())
	}
	var first string
	var rows []string
	for i, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = string(data)
		}
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(line, "| `--") {
				rows = append(rows, line)
			}
		}
	}
	flags := regexp.MustCompile(`(?m)^   --([a-z-]+).*\[(\$.*)\]$`).FindAllStringSubmatch(help.String(), -1)
	if len(flags) < 10 {
		t.Fatalf("--help shows %d flags with variables", len(flags))
	}
	// An agent without the config files of the GPUs can have flags of the same names.
	var options []config.Option
	if strings.Contains(help.String(), "--config-dir ") {
		options = config.Options()
	}
	for _, f := range flags {
		name := "`--" + f[1] + "`"
		if !strings.Contains(first, name) {
			t.Errorf("%s does not name %s", pages[0], name)
		}
		var row strings.Builder
		for _, line := range rows {
			if names, _, _ := strings.Cut(line[1:], "|"); strings.Contains(names, name) {
				row.WriteString(line)
			}
		}
		var want []string
		for v := range strings.SplitSeq(f[2], ", ") {
			want = append(want, strings.TrimPrefix(strings.TrimPrefix(v, "$"), "GFD_"))
		}
		if i := slices.IndexFunc(options, func(o config.Option) bool { return o.Name == f[1] && o.Key != "" }); i >= 0 {
			want = append(want, strings.TrimPrefix(options[i].Key, "flags."))
		}
		for _, word := range want {
			if !strings.Contains(row.String(), "`"+word+"`") && !strings.Contains(row.String(), "`GFD_"+word+"`") {
				t.Errorf("no row of %s in %q has %s", name, pages, word)
			}
		}
	}
}
