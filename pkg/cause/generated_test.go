package cause_test

import (
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/golden"

	"outrigger.dev/pkg/cause"
)

// row is a row of causes.tsv.
type row struct{ section, severity, code, name, meaning, fix string }

// rows reads causes.tsv.
func rows(t *testing.T) []row {
	t.Helper()
	table, err := os.ReadFile("causes.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var out []row
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || cells[0] == "section" {
			continue
		}
		if len(cells) != 6 || slices.Contains(slices.Delete(slices.Clone(cells), 3, 4), "") {
			t.Fatalf("a row has section, severity, code, name, meaning and fix, of which only the name may be empty: %q", line)
		}
		r := row{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]}
		if r.name == "" {
			r.name = r.code
		}
		out = append(out, r)
	}
	return out
}

// TestGenerated writes the code and the documentation of the table with -update.
func TestGenerated(t *testing.T) {
	code := "// Code generated from causes.tsv by \"go generate\". DO NOT EDIT.\n\npackage cause\n\n// The codes.\nconst (\n"
	table := ")\n\n// Row returns the row of a code. A code that the table does not have waits for something.\nfunc (c Code) Row() Row {\nswitch c {\n"
	for _, r := range rows(t) {
		code += fmt.Sprintf("// %s: %s\n%s Code = %q\n", r.name, r.meaning, r.name, r.code)
		severity := strings.ToUpper(r.severity[:1]) + r.severity[1:]
		table += fmt.Sprintf("case %s:\nreturn Row{c, %q, %s, %q, %q}\n", r.name, r.section, severity, r.meaning, r.fix)
	}
	source, err := format.Source([]byte(code + table + "}\nreturn Row{Code: c, Severity: Waits}\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	// A golden file is below testdata.
	golden.Assert(t, string(source), "../codes_generated.go")
	golden.Assert(t, documentation(t), "../../../docs/causes.md")
}

// sections are the headings of the documentation, each with a sentence that says where people see
// the codes of the section.
func sections() map[string][2]string {
	return map[string][2]string{
		"driver":  {"Driver", "Lines of `driver-loader plan`, its `/readyz` and log, and the label `code` of `outrigger_driver_loader_causes`. An upgrade can have these causes, too."},
		"upgrade": {"Driver upgrades", "The annotation `outrigger.dev/driver-upgrade-cause` of a Node, and the label `code` of `outrigger_driver_loader_upgrade_cause`. The first two are also in `/readyz` and `outrigger_driver_loader_causes`."},
		"license": {"Licenses of virtual GPUs", "Reasons of Events of a Node."},
		"node":    {"Nodes", "Reasons of the condition `GPUReady` and of its Events, the label `reason` of `gpu_ready`, and causes in `.status.problems` of the ClusterPolicy. `NoGPU` is one, too."},
		"pod":     {"Pods of agents", "Causes in `.status.problems` of the ClusterPolicy."},
		"device":  {"Devices", "The label `reason` of the device plugin's metrics, and reasons of its Events of a Node. The Event and the log have the sentence. `ConfigRefused` is also an Event of feature discovery."},
		"mig":     {"MIG", "Reasons of Events of a Node. The annotation `outrigger.dev/mig-config-cause` has the message."},
		"request": {"Requests for GPUs", "Causes that `kubectl outrigger doctor` finds for pods and nodes."},
		"policy":  {"ClusterPolicies", "`LeftBehind` is the reason of an Event. The others are types or reasons of conditions of the ClusterPolicy."},
	}
}

// documentation returns docs/causes.md.
func documentation(t *testing.T) string {
	t.Helper()
	out := "<!-- Generated from pkg/cause/causes.tsv by \"go generate\". -->\n\n# Causes\n\n" +
		"Each thing that can keep a GPU from being used has one code, wherever you see it: in a log, a command, a condition, an Event,\n" +
		"a metric or a status. The code never changes; the text beside it names the thing and the evidence.\n\n" +
		"The second column says how the problem ends. *starts*: by itself. *waits*: after another part, or a person, has acted.\n" +
		"*fails*: a person has to act. In the status of a ClusterPolicy, a cause that starts or waits counts as a failure after 10 minutes.\n" +
		"For NAMESPACE, POD and NODE, the status has the names.\n"
	last := ""
	for _, r := range rows(t) {
		if r.section != last {
			s, ok := sections()[r.section]
			if !ok {
				t.Fatalf("section %q has no heading", r.section)
			}
			out += fmt.Sprintf("\n## %s\n\n%s\n\n| code | expect | meaning | what to do |\n|---|---|---|---|\n", s[0], s[1])
			last = r.section
		}
		out += fmt.Sprintf("| <a id=\"cause-%s\"></a>`%s` | %s | %s | %s. |\n", strings.ToLower(r.code), r.code, r.severity, cell(r.meaning), cell(sentence(r.fix)))
	}
	return out
}

// sentence begins a fix with a capital letter, unless it begins with a command.
func sentence(fix string) string {
	if strings.HasPrefix(fix, "kubectl ") || strings.HasPrefix(fix, "orchestrator ") {
		return fix
	}
	return strings.ToUpper(fix[:1]) + fix[1:]
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

// The codes are contracts with users, who have alerts and scripts for them: the list only grows.
func TestCodesStay(t *testing.T) {
	had, err := os.ReadFile("testdata/codes.txt")
	if err != nil {
		t.Fatal(err)
	}
	codes := strings.Fields(string(had))
	if golden.FlagUpdate() {
		for _, r := range rows(t) {
			if !slices.Contains(codes, r.code) {
				codes = append(codes, r.code)
			}
		}
		if err := os.WriteFile("testdata/codes.txt", []byte(strings.Join(codes, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var now []string
	for _, r := range rows(t) {
		now = append(now, r.code)
	}
	if diff := cmp.Diff(codes, now, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("a code never changes or goes; for a new one, run go generate (-had +now):\n%s", diff)
	}
}

// key matches the name of a label or an annotation.
var key = regexp.MustCompile(`\b(?:outrigger\.dev|nvidia\.com)/[\w.-]+\b`)

// TestRowsAreOfThisCode finds a test that expects each code, by its constant or in quotes, and the
// labels and annotations of each fix.
func TestRowsAreOfThisCode(t *testing.T) {
	word := regexp.MustCompile(`\bcause\.(\w+)\b|["\x60](\w+)["\x60]`)
	tested, keys := map[string]bool{}, map[string]bool{}
	for _, root := range []string{"../../agents", "../../orchestrator", "../../pkg", "../../test"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "pkg/cause/") {
				return err
			}
			source, err := os.ReadFile(path)
			if !strings.HasSuffix(path, "_test.go") {
				for _, k := range key.FindAllString(string(source), -1) {
					keys[k] = true
				}
				return err
			}
			for _, w := range word.FindAllStringSubmatch(string(source), -1) {
				tested[w[1]+w[2]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range rows(t) {
		// A code of one small word is in tests for other things.
		if !tested[r.name] && (!tested[r.code] || r.name != r.code) {
			t.Errorf("no test expects %s", r.name)
		}
		for _, k := range key.FindAllString(r.meaning+r.fix, -1) {
			if !keys[k] {
				t.Errorf("the row of %s names %s, which no code knows", r.code, k)
			}
		}
	}
}

func TestRow(t *testing.T) {
	if r := cause.ModuleInUse.Row(); r.Code != "ModuleInUse" || r.Severity != cause.Waits || r.Meaning == "" || r.Fix == "" {
		t.Errorf("%+v", r)
	}
	if r := cause.Code("NobodyKnows").Row(); r.Severity != cause.Waits || r.Fix != "" {
		t.Errorf("%+v", r)
	}
	if c := cause.New(cause.NoSpace, "/store", "the disk is full"); c.Error() != "/store: the disk is full: "+cause.NoSpace.Row().Fix {
		t.Error(c)
	}
}
