package charts

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var airGapped = regexp.MustCompile("(?s)<!-- A test renders this file. -->\n```yaml\n(.*?)```")

// TestTheAirGappedValuesOfTheDocumentation renders them. All images have to come from the
// registry of the values.
func TestTheAirGappedValuesOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../docs/from-nvidia-gpu-operator.md")
	if err != nil {
		t.Fatal(err)
	}
	found := airGapped.FindSubmatch(text)
	if found == nil {
		t.Fatal("the page has no values")
	}
	values := valuesFrom(t, string(found[1]))
	c, err := Load(umbrella)
	if err != nil {
		t.Fatal(err)
	}
	// With the orchestrator, and then what it installs.
	out, err := Render(c, installed(values))
	if err != nil {
		t.Fatal(err)
	}
	stages, err := Stages(installed(values))
	if err != nil {
		t.Fatal(err)
	}
	images := 0
	for _, s := range stages {
		// A chart that the page does not name yet may be installed too.
		if _, named := values[s.Key]; named {
			out += s.Manifest
		}
	}
	for line := range strings.Lines(out) {
		if image, ok := strings.CutPrefix(strings.TrimSpace(line), "image: "); ok && strings.Contains(image, ":") {
			images++
			if !strings.HasPrefix(image, "registry.example.org/gpu/") {
				t.Errorf("an image comes from elsewhere: %s", image)
			}
		}
	}
	if secrets := strings.Count(out, "- name: registry-secret\n"); images < 7 || secrets != images {
		t.Errorf("%d images, %d secrets for them", images, secrets)
	}
	for _, want := range []string{"name: CONTAINERD_SET_AS_DEFAULT", "maxUnavailable: 1\n", "value: /usr/local/nvidia\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
}
