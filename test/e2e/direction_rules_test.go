package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// pkgs is what modules link, by import path: their packages, those of others,
// and none of the standard library.
type pkgs map[string]pkg

type pkg struct {
	// Main is set for a program.
	Main bool
	// Cgo is set for a package that links C.
	Cgo     bool
	Imports []string
}

const (
	outrigger = "outrigger.dev/..."
	goNVML    = "github.com/NVIDIA/go-nvml/..."
	clientGo  = "k8s.io/client-go/..."
	helm      = "helm.sh/helm/..."
	fsnotify  = "github.com/fsnotify/fsnotify/..."
	anyCgo    = "C"
	hostTools = "outrigger.dev/agents/*/tools/..."
	kubeTypes = "k8s.io/api/..."
	draApp    = "outrigger.dev/agents/device-plugin/internal/draapp"
)

// rule says what packages may not import. A pattern is an import path; "*" in it
// stands for one element, and "/..." at its end for all below it as well.
type rule struct {
	// of are the packages that the rule is about, except those of but.
	of  []string
	but []string
	// never are the packages that those may not import themselves.
	never []string
	// neverLinked are the packages that those may not import by way of others
	// either. anyCgo stands for all packages that link C.
	neverLinked []string
	// mains limits the rule to programs.
	mains bool
}

// rules are the rules of direction in ARCHITECTURE.md.
func rules() []rule {
	return []rule{
		// Charts are data. What shares code with them would have to be installed with them.
		{of: []string{"outrigger.dev/charts/..."}, but: nil, never: []string{"outrigger.dev/pkg/...", "outrigger.dev/agents/...", "outrigger.dev/orchestrator/..."}},
		{of: []string{"outrigger.dev/pkg/..."}, never: []string{"outrigger.dev/agents/...", "outrigger.dev/charts/...", "outrigger.dev/orchestrator/..."}},
		{of: []string{"outrigger.dev/agents/..."}, never: []string{"outrigger.dev/charts/...", "outrigger.dev/orchestrator/..."}},
		{of: []string{"outrigger.dev/orchestrator/..."}, never: []string{"outrigger.dev/agents/..."}},
		// NVML, and with it cgo, is reached through one package and those below it.
		{of: []string{outrigger}, but: []string{"outrigger.dev/pkg/gpu/nvml/..."}, never: []string{goNVML}},
		// Agents reach the API server through pkg/kube, except programs whose libraries take
		// client-go's types. Those types would cost another agent megabytes.
		{of: []string{outrigger}, but: []string{"outrigger.dev/pkg/kube/...", "outrigger.dev/orchestrator/...", draApp}, never: []string{clientGo}},
		{of: []string{outrigger}, but: []string{"outrigger.dev/orchestrator/...", "outrigger.dev/agents/device-plugin/dra-plugin"}, mains: true, neverLinked: []string{kubeTypes}},
		// Charts are rendered by the orchestrator alone.
		{of: []string{outrigger}, but: []string{"outrigger.dev/charts/...", "outrigger.dev/orchestrator/..."}, never: []string{helm}},
		{of: []string{"outrigger.dev/orchestrator/..."}, neverLinked: []string{goNVML, anyCgo}},
		// On-host tools start once for each container, on hosts with any libc.
		{of: []string{hostTools}, mains: true, neverLinked: []string{goNVML, anyCgo, clientGo, helm}},
		// A gpu.Node is a value: what takes one links no watcher.
		{of: []string{"outrigger.dev/pkg/gpu"}, neverLinked: []string{fsnotify, anyCgo}},
		{of: []string{"outrigger.dev/pkg/driverproc"}, neverLinked: []string{anyCgo}},
	}
}

// violations returns what breaks a rule, in order.
func violations(all pkgs, rules []rule) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		p := all[path]
		out = append(out, foreignAgents(path, p)...)
		for _, r := range rules {
			if !matchAny(r.of, path) || matchAny(r.but, path) || r.mains && !p.Main {
				continue
			}
			for _, imported := range p.Imports {
				if matchAny(r.never, imported) {
					out = append(out, fmt.Sprintf("%s imports %s", path, imported))
				}
			}
			if len(r.neverLinked) > 0 {
				out = append(out, linked(all, r, []string{path}, map[string]bool{})...)
			}
		}
	}
	return slices.Compact(out)
}

// foreignAgents returns the imports of an agent by another one: agents know
// nothing of each other.
func foreignAgents(path string, p pkg) []string {
	if !match("outrigger.dev/agents/...", path) {
		return nil
	}
	own := strings.Join(strings.SplitN(path, "/", 4)[:3], "/") + "/..."
	var out []string
	for _, imported := range p.Imports {
		if match("outrigger.dev/agents/...", imported) && !match(own, imported) {
			out = append(out, fmt.Sprintf("%s imports %s", path, imported))
		}
	}
	return out
}

// linked follows the imports of the last element of a chain, and returns the
// chains that end in what the rule does not allow.
func linked(all pkgs, r rule, chain []string, seen map[string]bool) []string {
	last := chain[len(chain)-1]
	if seen[last] {
		return nil
	}
	seen[last] = true
	if matchAny(r.neverLinked, last) || all[last].Cgo && slices.Contains(r.neverLinked, anyCgo) {
		return []string{strings.Join(chain, " links ")}
	}
	var out []string
	for _, imported := range all[last].Imports {
		out = append(out, linked(all, r, append(slices.Clone(chain), imported), seen)...)
	}
	return out
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, path) })
}

func match(pattern, path string) bool {
	pattern, below := strings.CutSuffix(pattern, "/...")
	want, have := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(have) < len(want) || len(have) > len(want) && !below {
		return false
	}
	for i := range want {
		if want[i] != "*" && want[i] != have[i] {
			return false
		}
	}
	return true
}
