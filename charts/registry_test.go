package charts

import (
	"strings"
	"testing"
)

// TestImagesWithoutARegistry renders values that name all images, or images in another form.
func TestImagesWithoutARegistry(t *testing.T) {
	for name, tc := range map[string]struct{ chart, values, want, vectoradd string }{
		"an image in full": {
			"device-plugin", "{image: {repository: a.example/gpu/device-plugin}}",
			"a.example/gpu/device-plugin:26.", "a.example/gpu/vectoradd:26.",
		},
		"all images in full": {
			"device-plugin", "{image: {repository: a.example/x}, test: {image: {repository: b.example/y}}}", "a.example/x:26.", "b.example/y:26.",
		},
		"an image of Docker Hub, without a path": {
			"device-plugin", "{image: {repository: x}}", "x:26.", "outrigger.dev/vectoradd:26.",
		},
		"the form of NVIDIA's operator": {
			"device-plugin", "{repository: a.example/gpu/, image: x, version: 26.1.0}", "a.example/gpu/x:26.1.0", "a.example/gpu/vectoradd:26.",
		},
		"an image in full, and a registry": {
			"device-plugin", "{image: {repository: a.example/x}, global: {registry: b.example}}", "a.example/x:26.", "b.example/vectoradd:26.",
		},
		"slashes at the end":         {"device-plugin", "{global: {registry: a.example/gpu//}}", "a.example/gpu/device-plugin:26.", "a.example/gpu/vectoradd:26."},
		"the driver loader's image":  {"driver-loader", "{manager: {repository: a.example/gpu}}", "a.example/gpu/driver-loader:26.", ""},
		"the image of a validation":  {"validator", "{image: {repository: a.example/gpu/vectoradd}}", "a.example/gpu/vectoradd:26.", ""},
		"the orchestrator's, by tag": {"orchestrator", "{image: {repository: a.example/o, tag: 26.1.0}}", "a.example/o:26.1.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(tc.chart)
			if err != nil {
				t.Fatal(err)
			}
			files, err := execute(c, Release{Name: "a", Namespace: "b", Kubernetes: "1.37.0", Values: valuesFrom(t, tc.values)})
			if err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for _, text := range files {
				all.WriteString(text)
			}
			for _, image := range imagesOf(all.String()) {
				want := tc.want
				if tc.vectoradd != "" && strings.Contains(image, "vectoradd") || strings.Contains(image, "/y:") {
					want = tc.vectoradd
				}
				if !strings.HasPrefix(image, want) {
					t.Errorf("an image is %s, want %s…", image, want)
				}
			}
			if !strings.Contains(all.String(), "image: "+tc.want) || !strings.Contains(all.String(), "image: "+tc.vectoradd) {
				t.Errorf("no image is %s…, or none is %s…", tc.want, tc.vectoradd)
			}
		})
	}
}

// TestThePolicyNeedsNoRegistry has a ClusterPolicy of a release that needed none. Its agents stay
// as they are.
func TestThePolicyNeedsNoRegistry(t *testing.T) {
	r := installed(nil)
	r.Values = map[string]any{}
	stages, err := Stages(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		for _, image := range imagesOf(s.Manifest) {
			if !strings.HasPrefix(image, "outrigger.dev/") {
				t.Errorf("stage %s has the image %s", s.Name, image)
			}
		}
	}
	r.Values["global"] = map[string]any{"registry": "https://registry.example.org"}
	if _, err := Stages(r); err == nil || !strings.Contains(err.Error(), "set global.registry to registry.example.org") {
		t.Errorf("with a scheme: %v", err)
	}
}
