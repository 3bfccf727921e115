package charts

import (
	"slices"
	"strings"
	"testing"
)

// ofNVIDIA names images in NVIDIA's registries: the charts run their own, and the notes name the values.
func ofNVIDIA() map[string][]string {
	return map[string][]string{
		"{devicePlugin: {repository: nvcr.io/nvidia, image: k8s-device-plugin, version: v0.18.0}}":                                                             {"devicePlugin.repository", "devicePlugin.image", "devicePlugin.version"},
		"{devicePlugin: {image: {repository: nvcr.io/nvidia/k8s-device-plugin}}}":                                                                              {"devicePlugin.image.repository"},
		"{devicePlugin: {image: {repository: docker.io/nvidia/k8s-device-plugin, tag: v0.17.4}}}":                                                              {"devicePlugin.image.repository", "devicePlugin.image.tag"},
		"{devicePlugin: {image: {repository: nvidia/k8s-device-plugin, tag: latest}}}":                                                                         {"devicePlugin.image.repository", "devicePlugin.image.tag"},
		"{gfd: {repository: ghcr.io/nvidia, image: k8s-device-plugin, version: 8b416016}}":                                                                     {"gfd.repository", "gfd.image", "gfd.version"},
		"{draDriver: {enabled: true, repository: nvcr.io/nvidia, image: k8s-dra-driver-gpu, version: v25.8.0}}":                                                {"draDriver.repository", "draDriver.image", "draDriver.version"},
		"{operator: {repository: nvcr.io/nvidia, image: gpu-operator}}":                                                                                        {"operator.repository", "operator.image"},
		"{operator: {validator: {repository: nvcr.io/nvidia/cloud-native, image: gpu-operator-validator, version: v25.10.0}}}":                                 {"operator.validator.repository", "operator.validator.image", "operator.validator.version"},
		"{validator: {repository: nvcr.io/nvidia/cloud-native, image: gpu-operator-validator, version: v25.10.0}}":                                             {"validator.repository", "validator.image", "validator.version"},
		"{driver: {enabled: true, payload: /d.run, manager: {repository: nvcr.io/nvidia/cloud-native, image: k8s-driver-manager, version: v0.4.2}}}":           {"driver.manager.repository", "driver.manager.image", "driver.manager.version"},
		"{driver: {enabled: true, payload: /d.run, manager: {repository: nvcr.io/nvidia/cloud-native, image: k8s-driver-manager, version: '" + digest + "'}}}": {"driver.manager.repository", "driver.manager.image", "driver.manager.version"},
	}
}

// maybeOfNVIDIA names images of other registries by a name or a tag of NVIDIA's. The chart must not replace them: they may be
// builds of the user.
func maybeOfNVIDIA() map[string][]string {
	return map[string][]string{
		"{devicePlugin: {image: {repository: r.example.org/mirror/k8s-device-plugin, tag: latest}}}":                                             {"devicePlugin.image.repository", "devicePlugin.image.tag"},
		"{devicePlugin: {image: {repository: r.example.org/mirror/k8s-device-plugin, tag: '" + digest + "'}}}":                                   {"devicePlugin.image.repository", "devicePlugin.image.tag"},
		"{devicePlugin: {image: {tag: v0.17.4}}}":                                                                                                {"devicePlugin.image.tag"},
		"{devicePlugin: {repository: r.example.org/gpu, version: v0.17.4}}":                                                                      {"devicePlugin.repository", "devicePlugin.version"},
		"{migManager: {repository: r.example.org/nvidia, image: k8s-mig-manager}}":                                                               {"migManager.repository", "migManager.image"},
		"{toolkit: {repository: r.example.org/nvidia, image: container-toolkit, version: v1.18.0}}":                                              {"toolkit.repository", "toolkit.image", "toolkit.version"},
		"{dcgmExporter: {repository: r.example.org/nvidia, image: dcgm-exporter, version: 4.6.0-4.8.3-distroless}}":                              {"dcgmExporter.repository", "dcgmExporter.image", "dcgmExporter.version"},
		"{draDriver: {enabled: true, repository: r.example.org/nvidia, image: k8s-dra-driver-gpu, version: v25.8.0}}":                            {"draDriver.repository", "draDriver.image", "draDriver.version"},
		"{operator: {repository: r.example.org/nvidia, image: gpu-operator}}":                                                                    {"operator.repository", "operator.image"},
		"{operator: {validator: {repository: r.example.org/nvidia, image: gpu-operator-validator}}}":                                             {"operator.validator.repository", "operator.validator.image"},
		"{driver: {enabled: true, payload: /d.run, manager: {repository: r.example.org, image: k8s-driver-manager, version: '" + digest + "'}}}": {"driver.manager.repository", "driver.manager.image", "driver.manager.version"},
		"{pools: [{name: a, nodeSelector: {a: b}, values: {devicePlugin: {version: v0.17.4}}}]}":                                                 {"pools[0].values.devicePlugin.version"},
	}
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestImagesOfNVIDIA has values that name images without the programs of the charts.
func TestImagesOfNVIDIA(t *testing.T) {
	for text, keys := range ofNVIDIA() {
		problems, notes, err := Check(installed(valuesFrom(t, text)))
		if err != nil || len(problems) > 0 {
			t.Fatalf("%s: %v, %v", text, err, problems)
		}
		got := ""
		for _, n := range notes {
			if strings.Contains(n.Reason, "not NVIDIA's") {
				got += n.Path + " " + n.Instead
			}
		}
		if want := keys[0] + " remove " + listed(keys); got != want {
			t.Errorf("%s: the notes have %q, want %q", text, got, want)
		}
		for _, image := range imagesIn(t, text) {
			if !strings.HasPrefix(image, "outrigger.dev/") {
				t.Errorf("%s: the image of a pod is %s", text, image)
			}
		}
	}
}

// TestImagesThatMayBeOfNVIDIA rejects images that a mirror of NVIDIA's or the user may have made. The advice removes them.
func TestImagesThatMayBeOfNVIDIA(t *testing.T) {
	for text, keys := range maybeOfNVIDIA() {
		values := valuesFrom(t, text)
		problems, _, err := Check(installed(values))
		if err != nil {
			t.Fatal(err)
		}
		if len(problems) != 1 || problems[0].Path != keys[0] || !strings.HasPrefix(problems[0].Instead, "remove "+listed(keys)+" to run the image of the chart; ") {
			t.Errorf("%s: the problems are\n%s", text, problems)
			continue
		}
		if left, _, err := Check(installed(problems.Apply(values))); err != nil || len(left) > 0 {
			t.Errorf("%s: after the advice: %v, %s", text, err, left)
		}
	}
}

// TestImagesOfUsers keeps images of users: with our names, or with names of their own, whatever their tags.
func TestImagesOfUsers(t *testing.T) {
	for text, want := range map[string]string{
		"{devicePlugin: {repository: r.example.org/nvidia, image: device-plugin, version: 26.11.0-debian12}}":     "r.example.org/nvidia/device-plugin:26.11.0-debian12",
		"{devicePlugin: {repository: r.example.org/nvidia, image: k8s-device-plugin, version: 26.11.0-debian12}}": "r.example.org/nvidia/k8s-device-plugin:26.11.0-debian12",
		"{devicePlugin: {image: {repository: r.example.org/private/device-plugin, tag: v1.2.3}}}":                 "r.example.org/private/device-plugin:v1.2.3",
		"{devicePlugin: {image: {repository: r.example.org/our-plugin, tag: 0.3.1}}}":                             "r.example.org/our-plugin:0.3.1",
		"{toolkit: {repository: r.example.org, image: container-toolkit, version: '" + digest + "'}}":             "r.example.org/container-toolkit@" + digest,
		"{dcgmExporter: {repository: r.example.org, image: my-exporter, version: 1.0.0-2.0.0}}":                   "r.example.org/my-exporter:1.0.0-2.0.0",
		"{gfd: {enabled: false, version: v0.17.4}}":                                                               "outrigger.dev/device-plugin:26.11.0-debian12",
	} {
		problems, _, err := Check(installed(valuesFrom(t, text)))
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: %v, %s", text, err, problems)
			continue
		}
		if images := imagesIn(t, text); !slices.Contains(images, want) {
			t.Errorf("%s: the images are %q, want %s", text, images, want)
		}
	}
}

// imagesIn returns the images of all pods of the umbrella, with the orchestrator and without it.
func imagesIn(t *testing.T, text string) []string {
	t.Helper()
	c, err := Load(umbrella)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, orchestrator := range []bool{true, false} {
		values := valuesFrom(t, text)
		values["orchestrator"] = map[string]any{"enabled": orchestrator}
		out, err := Render(c, installed(values))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, imagesOf(WithoutDefinitions(out))...)
	}
	return all
}

// listed joins names as a message does.
func listed(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
