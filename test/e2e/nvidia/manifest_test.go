package nvidia_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/test/e2e/nvidia"
)

// Each manifest runs only programs that NVIDIA's image has, and only the given image.
func TestManifestsRunOneImage(t *testing.T) {
	type container struct {
		Name, Image string
		Command     []string
	}
	image := nvidia.Image{Name: "i", StandIn: true}
	programs := []string{"nvidia-device-plugin", "gpu-feature-discovery", "config-manager"}
	for _, version := range nvidia.Versions() {
		for name, make := range map[string]func() (string, error){
			"plugin":    func() (string, error) { return nvidia.StaticPlugin(version, image) },
			"discovery": func() (string, error) { return nvidia.StaticDiscovery(image) },
			"chart":     func() (string, error) { return nvidia.Chart(version, image, "version: v1") },
		} {
			text, err := make()
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for document := range strings.SplitSeq(text, "---\n") {
				var o struct {
					Kind string
					Spec struct {
						Template struct {
							Spec struct{ InitContainers, Containers []container }
						}
					}
				}
				if err := yaml.Unmarshal([]byte(document), &o); err != nil {
					t.Fatalf("%s %s: %v: %s", version, name, err, document)
				}
				pod := o.Spec.Template.Spec
				for _, c := range append(pod.InitContainers, pod.Containers...) {
					found++
					if c.Image != "i" || len(c.Command) > 0 && !slices.Contains(programs, strings.TrimPrefix(c.Command[0], "/usr/bin/")) {
						t.Errorf("%s %s: container %s runs %q of %s", version, name, c.Name, c.Command, c.Image)
					}
				}
			}
			if found == 0 {
				t.Errorf("%s %s has no container", version, name)
			}
		}
	}
}
