package tools_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// dryRun returns the commands that make would run in the repository, or its error.
func dryRun(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "--no-print-directory", "-C", repository(t)}, args...)...)
	// Variables of the make that runs the test would be those of this make.
	cmd.Env = slices.DeleteFunc(cmd.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MAKECMDGOALS", "MFLAGS", "STEPS", "REGISTRY"}, name)
	})
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestPushNeedsARegistry fails before anything is built.
func TestPushNeedsARegistry(t *testing.T) {
	for _, goals := range []string{"push", "images push", "push-charts", "release publish"} {
		for registry, want := range map[string]string{
			"":                              "make " + goals + " REGISTRY=registry.example.org/gpu",
			"https://registry.example.net/": "make " + goals + " REGISTRY=registry.example.net/",
		} {
			out, err := dryRun(t, append(strings.Fields(goals), "REGISTRY="+registry)...)
			if err == nil || !strings.Contains(out, want) || strings.Contains(out, "tools/") {
				t.Errorf("make %s with the registry %q: %v: %s, want %q and nothing else", goals, registry, err, out, want)
			}
		}
	}
}

func TestPushComesAfterTheImages(t *testing.T) {
	for _, goals := range []string{"images push", "push images", "push"} {
		out, err := dryRun(t, append(strings.Fields(goals), "REGISTRY=registry.example.net/gpu")...)
		if err != nil {
			t.Fatalf("make %s: %v: %s", goals, err, out)
		}
		written := strings.Index(out, `"write the images"`)
		pushed := strings.Index(out, `images push --from out/images "registry.example.net/gpu"`)
		if pushed < written || (written >= 0) != strings.Contains(goals, "images") {
			t.Errorf("make %s writes the images at %d and pushes at %d:\n%s", goals, written, pushed, out)
		}
	}
}
