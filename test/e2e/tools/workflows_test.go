package tools_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWorkflowsPinWhatTheyRun has the actions of GitHub's workflows. A tag of an action can move, and
// a commit cannot.
func TestWorkflowsPinWhatTheyRun(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(repository(t), ".github/workflows/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find workflows: %v, %v", files, err)
	}
	files = append(files, filepath.Join(repository(t), "docs/examples/simulated/github.yaml")) // for other repositories
	pinned := regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	commits := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, action, ok := strings.Cut(strings.TrimSpace(line), "uses: ")
			if !ok {
				continue
			}
			if !pinned.MatchString(action) {
				t.Errorf("%s uses %s: pin it as actions/NAME@COMMIT # VERSION", file, action)
			}
			name, commit, _ := strings.Cut(action, "@")
			if commits[name] == "" {
				commits[name] = commit
			}
			if commits[name] != commit {
				t.Errorf("%s uses %s, another workflow uses %s", file, action, commits[name])
			}
		}
	}
}
