// Package newagent_test adds an agent to a copy of the repository and checks that
// it is built, tested, rendered, packaged and held to the rules of direction
// without an edit of any file but go.work and images/Dockerfile.
package newagent_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/test/e2e/stack"
)

// TestNewAgent adds the agent in testdata: a module, a chart and a stage of the Dockerfile.
func TestNewAgent(t *testing.T) {
	tree := newTree(t)
	t.Run("build", tree.build)
	t.Run("scripts", tree.scripts)
	t.Run("charts", tree.charts)
	t.Run("packages", tree.packages)
	t.Run("images", tree.images)
	t.Run("direction", tree.direction)
}

// tree is a copy of the repository with the new agent.
type tree struct {
	root string
	// bin holds the built programs of the repository.
	bin string
}

// newTree copies the repository and adds the agent, with its line in go.work and its stage in images/Dockerfile.
func newTree(t *testing.T) tree {
	t.Helper()
	source, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(source)
	if err != nil {
		t.Fatal(err)
	}
	c := tree{root: t.TempDir(), bin: filepath.Join(source, "bin")}
	if dir := os.Getenv("OUTRIGGER_BIN"); dir != "" {
		c.bin = dir
	}
	for _, entry := range entries {
		from, to := filepath.Join(source, entry.Name()), filepath.Join(c.root, entry.Name())
		switch {
		case slices.Contains([]string{".git", "bin", "out"}, entry.Name()):
		case entry.IsDir():
			copyDir(t, from, to)
		default:
			write(t, to, string(read(t, from)))
		}
	}
	copyDir(t, "testdata/throwaway", c.root)
	for _, file := range []string{"Chart.yaml", "README.md"} {
		c.edit(t, "charts/throwaway/"+file, "VERSION", c.version(t))
	}
	c.edit(t, "go.work", "use (\n", "use (\n\t./agents/throwaway\n")
	path := filepath.Join(c.root, "images/Dockerfile")
	write(t, path, string(read(t, path))+"\n"+string(read(t, "testdata/stage")))
	return c
}

// version returns the version of the release.
func (c tree) version(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(string(read(t, filepath.Join(c.root, "versions.mk")))) {
		if value, ok := strings.CutPrefix(line, "VERSION := "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatal("versions.mk has no VERSION")
	return ""
}

func (c tree) edit(t *testing.T, path, old, replacement string) {
	t.Helper()
	path = filepath.Join(c.root, path)
	text := string(read(t, path))
	if !strings.Contains(text, old) {
		t.Fatalf("%s lacks %q", path, old)
	}
	write(t, path, strings.ReplaceAll(text, old, replacement))
}

// run runs a command in a folder of the tree and returns its output. Go works
// offline: the new agent needs no module that the others do not need.
func (c tree) run(t *testing.T, dir string, command ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = filepath.Join(c.root, dir)
	// Charts are rendered with much garbage and little memory.
	cmd.Env = append(os.Environ(), "GOGC=400", "GOWORK=off", "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOSUMDB=off",
		"VERSION="+c.version(t), "OUTRIGGER_BIN="+filepath.Join(c.root, "bin"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// must runs a command and fails the test if the command fails.
func (c tree) must(t *testing.T, dir string, command ...string) string {
	t.Helper()
	out, err := c.run(t, dir, command...)
	if err != nil {
		t.Fatalf("%s in %q: %v\n%s", strings.Join(command, " "), dir, err, out)
	}
	return out
}

// compile compiles the tests of a folder, and returns their program. With the flags of
// tools/test-events.sh, the compiler's cache has what they link.
func (c tree) compile(t *testing.T, dir string) string {
	t.Helper()
	test := filepath.Join(c.root, filepath.Base(dir)+".test")
	c.must(t, dir, "bash", "-c", `. "$1/tools/compile.env" && go test -vet=off -trimpath -tags "$tags,grpcnotrace,urfave_cli_no_docs" -c -o "$0" .`, test, c.root)
	return test
}

func (c tree) build(t *testing.T) {
	c.must(t, "agents/throwaway", "go", "mod", "tidy")
	c.must(t, "", "tools/build.sh", "agents/throwaway")
	if out := c.must(t, "", "bin/throwaway", "version"); !strings.Contains(out, c.version(t)) {
		t.Errorf("bin/throwaway version prints %q", out)
	}
}

// scripts runs the scripts that visit all modules. Stubs of go and golangci-lint
// keep that cheap; "bash -x" prints the folders.
func (c tree) scripts(t *testing.T) {
	write(t, filepath.Join(c.root, "stubs/go"), "#!/bin/sh\n")
	write(t, filepath.Join(c.root, "bin/golangci-lint"), "#!/bin/sh\n")
	t.Setenv("PATH", filepath.Join(c.root, "stubs")+":"+os.Getenv("PATH"))
	enters := regexp.MustCompile(`(?m)^\++ cd \S*agents/throwaway$`)
	for _, script := range []string{"tools/build.sh", "tools/lint.sh", "tools/test-events.sh"} {
		if out, _ := c.run(t, "", "bash", "-x", script); !enters.MatchString(out) {
			t.Errorf("%s does not enter agents/throwaway:\n%s", script, out)
		}
	}
	// The demo installs the agents of the umbrella, so it needs the program and the image of each.
	out := c.must(t, "", "make", "--dry-run", "demo")
	if !regexp.MustCompile(`tools/build\.sh .*agents/throwaway/\.\.\.`).MatchString(out) || !regexp.MustCompile(`tools/images\.sh .*\bthrowaway\b`).MatchString(out) {
		t.Errorf("make demo does not build agents/throwaway and its image:\n%s", out)
	}
}

// slow are the tests of charts that take most of the time: they render all agents again and again, in cases that a new
// agent does not have. Its own rejections are tested.
var slow = []string{
	"^TestImages", "^TestHelmPrintsTheProblemsThatTheProgramReports$", "^TestNVIDIAsValuesFilesNeedOneRun$", "^TestThePolicyGivesTheSameObjects$",
	"^TestTheUserCanReplaceAVariable", "^TestRejections$/^[^t]", "^TestPodsFindTheirObjects$", "^TestThePolicyHasNoDefaults$", "^TestAlerts$",
	"^TestNullIsTheDefaultInTheUmbrella$", "^TestStagesNamesEveryMistakeInTheValues$", "^TestEachKindOfNodeHasItsDriver$",
}

func (c tree) charts(t *testing.T) {
	c.programs(t)
	test := c.compile(t, "charts")
	c.must(t, "charts", test, "-test.run", "TestTheUmbrellaHasEveryChart|TestTemplatesHaveTheDefaults|TestTemplatesHaveTheValuesWithoutEffect|TestChartsContainWhatTheyDependOn", "-update")
	// The charts are embedded.
	c.compile(t, "charts")
	// So are the values of the new agent in the CRD, and its keys in the admission policy.
	c.must(t, "charts", test, "-test.run", "TestTheDefinitionHasTheValues|TestThePolicyOfKeysHasAllKeys", "-update")
	c.compile(t, "charts")
	c.must(t, "charts", test, "-test.run", "TestChartsContainWhatTheyDependOn", "-update")
	if out, err := c.run(t, "charts", test, "-test.run", "TestGoldens/throwaway"); err == nil || !strings.Contains(out, "testdata/throwaway/defaults.golden") {
		t.Errorf("without a golden file the tests of the charts print: %v\n%s", err, out)
	}
	c.must(t, "charts", test, "-test.run", "TestGoldens/(throwaway|outrigger|orchestrator)", "-update")
	out := c.must(t, "charts", test, "-test.v", "-test.skip", strings.Join(slow, "|"))
	for _, ran := range []string{
		"TestGoldens/throwaway/defaults", "TestRejections/throwaway/a_port_out_of_range", "TestProgramsKnowTheirVariables/throwaway",
	} {
		if !strings.Contains(out, "--- PASS: "+ran+" ") {
			t.Errorf("%s did not pass:\n%s", ran, out)
		}
	}
	if golden := string(read(t, filepath.Join(c.root, "charts/testdata/throwaway/defaults.golden"))); !strings.Contains(golden, "kind: DaemonSet") {
		t.Errorf("the chart renders no DaemonSet:\n%s", golden)
	}
	if golden := string(read(t, filepath.Join(c.root, "charts/testdata/outrigger/agents.golden"))); !strings.Contains(golden, `image: "outrigger.dev/throwaway:`) {
		t.Errorf("the umbrella does not install the agent:\n%s", golden)
	}
}

// programs links the built programs of the repository into the tree.
func (c tree) programs(t *testing.T) {
	t.Helper()
	built, err := filepath.Glob(filepath.Join(c.bin, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range built {
		path, err := filepath.Abs(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(c.root, "bin", filepath.Base(path))); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
}

// packages runs tools/charts.sh with a stub of helm that prints its arguments, and packs
// a chart as it is.
func (c tree) packages(t *testing.T) {
	if _, err := os.Stat(filepath.Join(c.bin, "images")); err != nil {
		t.Skip("bin/images is missing: make build")
	}
	c.programs(t)
	if err := os.RemoveAll(filepath.Join(c.root, "bin/helm")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(c.root, "bin/helm"), "#!/bin/sh\necho \"helm $*\"\n"+
		"[ \"$1\" != package ] || tar -czf \"$4/${2##*/}.tgz\" -C charts \"${2##*/}\"\n")
	write(t, filepath.Join(c.root, "out/nfd-chart/Chart.yaml"), "version: 0.1.0\n")
	out := c.must(t, "", "tools/charts.sh")
	for _, want := range []string{"helm lint --strict charts/throwaway", "helm package charts/throwaway", "out/charts/oci:throwaway-"} {
		if !strings.Contains(out, want) {
			t.Errorf("tools/charts.sh does not run %q:\n%s", want, out)
		}
	}
}

func (c tree) images(t *testing.T) {
	if _, err := os.Stat(filepath.Join(c.bin, "images")); err != nil {
		t.Skip("bin/images is missing: make build")
	}
	c.programs(t)
	// A component that is not in the computed list is an error.
	out := c.must(t, "", "bin/images", "build", "throwaway")
	for _, want := range []string{"out/images/throwaway.tar", "outrigger.dev/throwaway:" + c.version(t)} {
		if !strings.Contains(out, want) {
			t.Errorf("bin/images build does not print %q:\n%s", want, out)
		}
	}
}

// direction runs the test of the rules of direction with the new agent, and again
// after the agent imports what no agent may import.
func (c tree) direction(t *testing.T) {
	args := []string{c.compile(t, "test/e2e"), "-test.run", "TestModulesImportOnlyWhatTheyMay"}
	c.must(t, "test/e2e", args...)
	write(t, filepath.Join(c.root, "agents/throwaway/internal/bad/bad.go"),
		"// Package bad breaks a rule.\npackage bad\n\nimport _ \"github.com/NVIDIA/go-nvml/pkg/nvml\"\n")
	c.must(t, "agents/throwaway", "go", "mod", "tidy")
	if out, err := c.run(t, "test/e2e", args...); err == nil || !strings.Contains(out, "outrigger.dev/agents/throwaway/internal/bad imports") {
		t.Errorf("an import of go-nvml passes: %v\n%s", err, out)
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from).(fs.ReadLinkFS)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// write writes a file, executable in case it is a program.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
