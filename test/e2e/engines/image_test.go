//go:build e2e

package engines_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// safely are the options that take a container's privileges away.
func safely() []string {
	return []string{"--network=none", "--security-opt=no-new-privileges", "--cap-drop=ALL"}
}

// once runs a container to its end.
func (e *engine) once(args ...string) (stdout, stderr string, err error) {
	e.t.Helper()
	return e.try(slices.Concat([]string{"run", "--rm"}, e.running, args)...)
}

func TestEveryImageRunsWithoutPrivileges(t *testing.T) {
	e := newEngine(t, nil)
	for _, archive := range archives(t, e.root) {
		component := strings.TrimSuffix(filepath.Base(archive), ".tar")
		t.Run(component, func(t *testing.T) {
			stdout, stderr, err := e.once(append(safely(), e.image(component), "--help")...)
			if err != nil || !strings.Contains(stdout, component) || !strings.Contains(stdout, "--help") {
				t.Errorf("docker run %s --help: %v, want its help: %s%s", component, err, stdout, stderr)
			}
		})
	}
}

func TestVectoraddSaysThatTheDriverIsMissing(t *testing.T) {
	e := newEngine(t, nil)
	_, stderr, err := e.once(append(safely(), e.image("vectoradd"))...)
	if err == nil || !strings.Contains(stderr, "open libcuda.so.1: library not loadable") {
		t.Errorf("docker run vectoradd: %v, want an error that names libcuda.so.1: %s", err, stderr)
	}
}
