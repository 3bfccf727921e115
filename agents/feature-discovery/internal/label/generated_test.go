package label_test

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/golden"
)

const (
	policyTemplate = "../../../../charts/feature-discovery/templates/_labels.tpl"
	documentation  = "../../../../docs/feature-discovery-reference.md"
)

// row is a row of labels.tsv.
type row struct {
	of          string
	names       []string
	value, note string
}

// rows returns the rows of labels.tsv.
var rows = sync.OnceValue(func() []row {
	table, err := os.ReadFile("labels.tsv")
	if err != nil {
		panic(err)
	}
	var out []row
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || cells[0] == "of" {
			continue
		}
		if len(cells) != 4 || cells[1] == "" || cells[2] == "" || !slices.Contains([]string{"node", "gpu", "mig", "both"}, cells[0]) {
			panic("a row has of (node, gpu, mig, both), names, value and note, of which only the note may be empty: " + line)
		}
		out = append(out, row{cells[0], strings.Fields(cells[1]), cells[2], cells[3]})
	}
	return out
})

// named returns the names of the labels of some things, sorted.
func named(of ...string) []string {
	var out []string
	for _, r := range rows() {
		if slices.Contains(of, r.of) {
			out = append(out, r.names...)
		}
	}
	slices.Sort(out)
	return out
}

// TestGenerated writes the policy of the chart and the table of the documentation with -update.
func TestGenerated(t *testing.T) {
	pattern := func(names []string) string { return strings.ReplaceAll(strings.Join(names, "|"), ".", "[.]") }
	policy := "{{- /* Code generated from agents/feature-discovery/internal/label/labels.tsv by \"go generate\". DO NOT EDIT.\n" +
		"The labels of feature discovery, as an expression about the key k. */ -}}\n{{- define \"feature-discovery.ownLabel\" -}}\nk in [\n"
	for _, name := range named("node") {
		policy += "  'nvidia.com/" + name + "',\n"
	}
	policy = strings.TrimSuffix(policy, ",\n") + "\n] ||\n" +
		`k.matches('^nvidia[.]com/gpu[.](` + pattern(named("gpu", "mig", "both")) + ")$') ||\n" +
		`k.matches('^nvidia[.]com/gpu[.]product-.+[.](` + pattern(named("gpu", "both")) + ")$') ||\n" +
		`k.matches('^nvidia[.]com/mig-([1-9]c[.])?[1-9]g[.][1-9][0-9]{0,3}gb([.]me|[.]me[.]all|[.]gfx|-me)?[.](` + pattern(named("mig", "both")) + ")$')\n{{- end -}}\n"
	written(t, policyTemplate, policy)

	text, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| label | value | condition or note |\n|---|---|---|\n"
	before, table, found := strings.Cut(string(text), head)
	_, after, ends := strings.Cut(table, "\n\n")
	if !found || !ends {
		t.Fatalf("%s has no table with the head\n%s", documentation, head)
	}
	written(t, documentation, before+head+documented()+"\n"+after)
}

// documented returns the rows of the documentation.
func documented() string {
	text := ""
	for _, r := range rows() {
		prefix := ""
		if r.of != "node" {
			prefix = "gpu."
		}
		text += "| " + list(prefix, r.names) + " | " + r.value + " | " + strings.TrimPrefix(r.note+" |\n", " ")
	}
	return text +
		"| " + list("mig-<profile>.", named("mig", "both")) + " | the same for the MIG devices of a profile: `mig-1g.5gb.count`, `mig-1g.10gb.me.count` | `mixed` |\n" +
		"| " + list("gpu.product-<product>.", named("gpu", "both")) + " | the same for each model: `gpu.product-NVIDIA-L4.count` | the node has GPUs of more than one model |\n"
}

// list writes names. Those that differ from the one before in the last part only are shortened to that.
func list(prefix string, names []string) string {
	var out []string
	for i, name := range names {
		name = prefix + name
		if last := strings.LastIndex(name, "."); i > 0 && strings.HasPrefix(prefix+names[i-1], name[:last+1]) {
			name = name[last:]
		}
		out = append(out, "`"+name+"`")
	}
	return strings.Join(out, ", ")
}

// written compares a generated file, or writes it with -update.
func written(t *testing.T, file, want string) {
	t.Helper()
	if golden.FlagUpdate() {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // it is part of the repository
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what labels.tsv makes of it (%v): run 'go generate ./internal/label' in agents/feature-discovery, and 'go test . -update' in charts", file, err)
	}
}
