package charts

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var airGapped = regexp.MustCompile("(?s)<!-- A test renders this file. -->\n *```yaml\n(.*?)```")

// TestTheAirGappedValuesOfTheDocumentation renders them. All images have to come from the
// registry of the values, with the Secret for it.
func TestTheAirGappedValuesOfTheDocumentation(t *testing.T) {
	for page, want := range map[string]struct {
		images int
		texts  []string
	}{
		"from-nvidia-gpu-operator.md": {10, []string{
			"name: CONTAINERD_SET_AS_DEFAULT", "maxUnavailable: 1\n", "value: /usr/local/nvidia\n", "registry.example.org/gpu/driver:580.95.05-ubuntu22.04",
		}},
		"driver-loader.md": {2, []string{
			"registry.example.org/gpu/driver:580.95.05-ubuntu22.04", "mountPath: /etc/apt/sources.list.d\n", "name: gpu-certificates\n",
		}},
	} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile("../docs/" + page)
			if err != nil {
				t.Fatal(err)
			}
			found := airGapped.FindSubmatch(text)
			if found == nil {
				t.Fatal("the page has no values")
			}
			out := WithoutDefinitions(everything(t, valuesFrom(t, string(found[1]))))
			images := 0
			for object := range strings.SplitSeq(out, "\n---\n") {
				here := imagesOf(object)
				images += len(here)
				for _, image := range here {
					if !strings.HasPrefix(image, "registry.example.org/gpu/") {
						t.Errorf("an image comes from elsewhere: %s", image)
					}
				}
				if len(here) > 0 && !strings.Contains(object, "- name: registry-secret\n") {
					t.Errorf("no Secret for %v", here)
				}
			}
			if images < want.images {
				t.Errorf("%d images, want %d", images, want.images)
			}
			for _, text := range want.texts {
				if !strings.Contains(out, text) {
					t.Errorf("%q is missing", text)
				}
			}
		})
	}
}

// everything returns what the umbrella installs, with the orchestrator, and what that installs
// of the charts that the values name.
func everything(t *testing.T, values map[string]any) string {
	t.Helper()
	c, err := Load(umbrella)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Render(c, installed(values))
	if err != nil {
		t.Fatal(err)
	}
	stages, err := Stages(installed(values))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		// A chart that the page does not name yet may be installed too.
		if _, named := values[s.Key]; named {
			out += "\n---\n" + s.Manifest
		}
	}
	return out
}

func imagesOf(object string) []string {
	var images []string
	for line := range strings.Lines(object) {
		if image, ok := strings.CutPrefix(strings.TrimSpace(line), "image: "); ok && strings.Contains(image, ":") {
			images = append(images, image)
		}
	}
	return images
}
