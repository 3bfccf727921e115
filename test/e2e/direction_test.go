package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// TestModulesImportOnlyWhatTheyMay holds the rules of direction in
// ARCHITECTURE.md against what each module links, tests left out.
func TestModulesImportOnlyWhatTheyMay(t *testing.T) {
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	agents, err := filepath.Glob(filepath.Join(root, "agents", "*", "go.mod"))
	if err != nil || len(agents) == 0 {
		t.Fatalf("agents are %v (error %v), want some", agents, err)
	}
	modules := []string{"pkg", "charts"}
	for _, mod := range agents {
		rel, err := filepath.Rel(root, filepath.Dir(mod))
		if err != nil {
			t.Fatal(err)
		}
		modules = append(modules, rel)
	}
	const nvml = "github.com/NVIDIA/go-nvml"
	for _, module := range modules {
		for importer, imports := range imports(t, filepath.Join(root, module)) {
			for _, imported := range imports {
				switch {
				case strings.HasPrefix(imported, nvml) && !strings.HasPrefix(importer, nvml) && importer != "outrigger.dev/pkg/gpu/nvml":
					t.Errorf("%s imports %s: only outrigger.dev/pkg/gpu/nvml may", importer, imported)
				case strings.HasPrefix(imported, "k8s.io/client-go") && strings.HasPrefix(importer, "outrigger.dev/") && importer != "outrigger.dev/pkg/kube/typed":
					t.Errorf("%s imports %s: only outrigger.dev/pkg/kube/typed may", importer, imported)
				case strings.HasPrefix(imported, "outrigger.dev/") && !mayImport(module, imported):
					t.Errorf("%s imports %s: module %s may not", importer, imported, module)
				}
			}
		}
	}
}

// mayImport tells whether a module may link a package of ours.
func mayImport(module, imported string) bool {
	own := "outrigger.dev/" + module
	switch {
	case imported == own || strings.HasPrefix(imported, own+"/"):
		return true
	case strings.HasPrefix(module, "agents/"):
		return strings.HasPrefix(imported, "outrigger.dev/pkg/")
	default:
		return false
	}
}

// imports returns what each package that a module links imports.
func imports(t *testing.T, dir string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"-f", `{{if not .Standard}}{{.ImportPath}} {{join .Imports " "}}{{end}}`, "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages of %s: %v", dir, err)
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) > 0 {
			found[words[0]] = words[1:]
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no package", dir)
	}
	return found
}
