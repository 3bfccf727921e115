package agenttest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/config"
)

// Documented checks that the first page names every flag that --help shows, and that the tables of
// the pages have its variables and its key in the config file. A page may omit "flags." in keys and
// GFD_ in variables. The columns "default" of the first page must have the defaults that --help
// shows.
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
	defaults(t, pages[0], first, help.String())
	flags := regexp.MustCompile(`(?m)^   --([a-z-]+).*\[(\$.*)\]$`).FindAllStringSubmatch(help.String(), -1)
	if len(flags) < 10 {
		t.Fatalf("--help shows %d flags with variables", len(flags))
	}
	// An agent without a config file for GPUs can have flags with the names of options.
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

var (
	shown = regexp.MustCompile(`(?m)^   --([a-z-]+).*\(default: "?([^"\n]*?)"?\)`)
	code  = regexp.MustCompile("`([^`]*)`")
)

// defaults compares the columns "default" of a page with the defaults in the help. A cell is
// compared if it has one code span for all its flags, or one for each. Other cells describe a
// default that depends on the node.
func defaults(t testing.TB, page, text, help string) {
	t.Helper()
	want := map[string]string{}
	for _, m := range shown.FindAllStringSubmatch(help, -1) {
		want[m[1]] = m[2]
	}
	column := -1
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			column = -1
		case strings.HasPrefix(line, "| flag"):
			column = slices.IndexFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "default" })
		case column > 0 && len(cells) > column:
			flags := regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(withoutAliases(cells[1]), -1)
			says := code.FindAllStringSubmatch(cells[column], -1)
			for i, f := range flags {
				if len(says) == 1 && len(flags) > 1 {
					i = 0
				}
				value, has := want[f[1]]
				if has && i < len(says) && (len(says) == len(flags) || len(says) == 1) && value != says[i][1] && !sameTime(value, says[i][1]) {
					t.Errorf("%s: the default of --%s is %q, --help shows %q", page, f[1], says[i][1], value)
				}
			}
		}
	}
}

// withoutAliases removes the texts in brackets, which are the other names of flags.
func withoutAliases(text string) string {
	return regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(text, "")
}

func sameTime(a, b string) bool {
	x, err := time.ParseDuration(a)
	y, wrong := time.ParseDuration(b)
	return err == nil && wrong == nil && x == y
}

// Table checks a table of a page that tests write with -update: the table after a comment that ends in
// "writes this table.", in a section with this heading of level 2.
func Table(t testing.TB, page, section, want string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile(`(?s)\n## ` + regexp.QuoteMeta(section) + `\n(?:[^\n#][^\n]*\n|\n)*?<!-- [^\n]* writes this table\. -->\n\n((?:\|[^\n]*\n)*)`).FindSubmatchIndex(data)
	if place == nil {
		t.Fatalf("%s has no section %q with a comment that a test writes this table", page, section)
	}
	start, end := place[2], place[3]
	if string(data[start:end]) == want {
		return
	}
	if update := flag.Lookup("update"); update == nil || update.Value.String() != "true" {
		t.Errorf("the table in section %s of %s is out of date: run this test with -update", section, page)
		return
	}
	if err := os.WriteFile(page, slices.Concat(data[:start], []byte(want), data[end:]), 0o644); err != nil { //nolint:gosec // it is part of the repository
		t.Fatal(err)
	}
}

// documentedMetrics checks that docs/AGENT.md or docs/AGENT-reference.md documents each metric outrigger_AGENT_… of a scrape
// once. A page may omit this prefix. An agent without a page is not checked.
func (p *Process) documentedMetrics(scrape string) {
	p.t.Helper()
	for _, found := range regexp.MustCompile(`(?m)^# TYPE outrigger_(\w+)`).FindAllStringSubmatch(scrape, -1) {
		if _, checked := p.metrics.LoadOrStore(found[1], true); checked {
			continue
		}
		for agent, page := range documentation(p.t) {
			short, of := strings.CutPrefix(found[1], strings.ReplaceAll(agent, "-", "_")+"_")
			named := regexp.MustCompile("`(outrigger_" + found[1] + "|" + short + ")\\b")
			if of && !named.MatchString(page) {
				p.t.Errorf("docs/%s.md and its reference do not have the metric outrigger_%s: add a row", agent, found[1])
			}
		}
	}
}

// documentation returns the pages in docs, by their names without ".md". The reference of an agent
// belongs to the page of the agent.
func documentation(t testing.TB) map[string]string {
	t.Helper()
	out, docs := map[string]string{}, "docs"
	for range 8 { // folders from a package to the root of the repository
		if _, err := os.Stat(filepath.Join(docs, "../go.work")); err == nil {
			break
		}
		docs = filepath.Join("..", docs)
	}
	files, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".md"), "-reference")] += string(text)
	}
	return out
}
