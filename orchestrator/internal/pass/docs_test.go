package pass_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/golden"

	"outrigger.dev/orchestrator/internal/model"
)

const page = "../../../docs/orchestrator-status.md"

// shown are the scenarios of which the documentation shows the columns.
func shown() []string {
	return []string{
		"all is well", "the pods of an installation start", "an installation works on the first node", "a rollout is under way", "a validation runs", "an agent waits for a driver", "a new version has an image that does not exist",
		"an agent crashes", "a node is gone", "a node loses its driver", "all GPUs of a node are lost", "a GPU is lost", "a node is opted out", "the driver hangs on one node", "no node has a GPU", "nothing looks for GPUs", "values are refused",
		"an object belongs to Helm", "the policy is being deleted",
	}
}

// TestDocumentedColumns keeps the examples in the documentation equal to what the program says.
func TestDocumentedColumns(t *testing.T) {
	var out strings.Builder
	out.WriteString("| when | State | Ready | GPU nodes | Message |\n|---|---|---|---|---|\n")
	for _, name := range shown() {
		w := healthy(3)
		w.publish(t, w.next())
		scenarios()[name](w)
		row := columns(name, w.next().Status)
		row[4] = strings.ReplaceAll(row[4], "|", "\\|")
		fmt.Fprintf(&out, "| %s | `%s` | %s | %s | `%s` |\n", row[0], row[1], row[2], row[3], row[4])
	}
	const begin, end = "<!-- columns -->\n", "<!-- end -->"
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(content), begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no table between %q and %q", page, begin, end)
	}
	golden.Assert(t, before+begin+out.String()+end+after, filepath.Join("..", page)) // beside testdata
}

// TestDocumentedWords checks that the documentation has all reasons, states and causes.
func TestDocumentedWords(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	words := model.States()
	for file, pattern := range map[string]string{
		"../model/status.go": `Reason\w+ += "(\w+)"`,
		"events.go":          `addEvent\((?:true|false), "(\w+)"`,
		"objects.go":         `Reason: "(\w+)"`,
	} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1)
		if len(found) == 0 {
			t.Errorf("%s has no words", file)
		}
		for _, f := range found {
			words = append(words, f[1])
		}
	}
	for _, word := range words {
		if !strings.Contains(string(content), "`"+word+"`") {
			t.Errorf("%s does not have %q", page, word)
		}
	}
}
