package abi_test

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/agent/agenttest"
)

const page = "../../docs/simulation.md"

// The sources of the libraries state the kind of each function: in the first comment of a file for
// all functions of the file, or in a comment directly before one or several definitions.
var (
	marker     = regexp.MustCompile(`\bKind: (real|simulated|static)\.`)
	definition = regexp.MustCompile(`(?m)^(?:EXPORT [^\n(]*?|[A-Z_]+\()\b((?:nvml|cu)[A-Z]\w+)[(,)]`)
	symbol     = regexp.MustCompile(`(?m)^SIM_SYMBOL\((\w+)\)`)
	exported   = regexp.MustCompile(`^(nvml|cu)[A-Z]`)
)

// kindsOf returns the kind of each function that a source defines.
func kindsOf(t *testing.T, source string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(source)
	mustDo(t, err)
	kinds := map[string]string{}
	stated := func(code string) string {
		comment, _, _ := strings.Cut(code, "*/")
		if found := marker.FindStringSubmatch(comment); found != nil && strings.HasPrefix(code, "/*") {
			return found[1]
		}
		return ""
	}
	for part := range strings.SplitSeq(string(text), "\n\n") {
		for _, name := range definition.FindAllStringSubmatch(part, -1) {
			kinds[name[1]] = stated(string(text))
			if own := stated(part); own != "" {
				kinds[name[1]] = own
			}
			if kinds[name[1]] == "" {
				t.Errorf("%s defines %s without its kind: write \"Kind: simulated.\" (or real, static) at the end of its first comment", source, name[1])
			}
		}
	}
	return kinds
}

// symbols returns the functions of a list in the state's folder, sorted.
func symbols(t *testing.T, list string) []string {
	t.Helper()
	text, err := os.ReadFile("../internal/state/" + list)
	mustDo(t, err)
	var names []string
	for _, found := range symbol.FindAllStringSubmatch(string(text), -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return names
}

// compiled returns the functions that the compiled sources define, without the stubs, sorted.
func compiled(t *testing.T) []string {
	t.Helper()
	objects, err := filepath.Glob(filepath.Join(libraries(t), ".obj/*.o"))
	mustDo(t, err)
	var names []string
	for _, object := range objects {
		f, err := elf.Open(object)
		mustDo(t, err)
		found, err := f.Symbols()
		mustDo(t, err)
		f.Close()
		for _, s := range found {
			if elf.ST_BIND(s.Info) == elf.STB_GLOBAL && elf.ST_TYPE(s.Info) == elf.STT_FUNC && exported.MatchString(s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// TestKindsAreDocumented writes the tables of the page with -update.
func TestKindsAreDocumented(t *testing.T) {
	sources, err := filepath.Glob("../lib/*.c")
	mustDo(t, err)
	kinds := map[string]string{}
	var defined []string
	for _, source := range sources {
		for name, k := range kindsOf(t, source) {
			kinds[name] = k
			defined = append(defined, name)
		}
	}
	slices.Sort(defined)
	if diff := cmp.Diff(compiled(t), defined); diff != "" {
		t.Fatalf("functions of the compiled sources, and functions whose definition this test finds (-compiled +found):\n%s", diff)
	}
	summary := "| functions | all | real | simulated | static | refused |\n|---|---|---|---|---|---|\n"
	for _, list := range []struct{ title, file, section string }{
		{"NVML", "symbols_nvml.h", "NVML, by function"}, {"CUDA driver API", "symbols_cuda.h", "CUDA, by function"},
	} {
		table, count := "| function | kind |\n|---|---|\n", map[string]int{}
		all := symbols(t, list.file)
		for _, name := range all {
			k, ok := kinds[name]
			if !ok {
				k = "refused"
			}
			count[k]++
			table += fmt.Sprintf("| `%s` | %s |\n", name, k)
		}
		summary += fmt.Sprintf("| %s | %d | %d | %d | %d | %d |\n", list.title, len(all), count["real"], count["simulated"], count["static"], count["refused"])
		agenttest.Table(t, page, list.section, table)
	}
	agenttest.Table(t, page, "Kinds of functions", summary)
}
