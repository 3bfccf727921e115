package app_test

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/images/internal/dockerfile"
)

// recipes reads the Dockerfile of the repository.
func recipes(t *testing.T) map[string]dockerfile.Recipe {
	t.Helper()
	file, err := dockerfile.Read("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]dockerfile.Recipe{}
	for _, name := range file.Images() {
		recipe, err := file.Recipe(name, map[string]string{
			"VERSION": "26.11.0", "OS_BASE": "debian12", "BASE_NAME": "docker.io/library/debian:12", "REVISION": "0123abc",
		})
		if err != nil {
			t.Fatal(err)
		}
		all[name] = recipe
	}
	return all
}

// The keys are those of the OCI image specification, annotations.md.
func TestLabelsSayWhereAnImageComesFrom(t *testing.T) {
	for component, recipe := range recipes(t) {
		for key, want := range map[string]string{
			"title": component, "version": "26.11.0-debian12", "revision": "0123abc",
			"source": "https://outrigger.dev", "url": "https://outrigger.dev",
			"base.name": "docker.io/library/debian:12", "licenses": "Apache-2.0",
		} {
			if got := recipe.Labels["org.opencontainers.image."+key]; got != want {
				t.Errorf("%s: the label %s is %q, want %q", component, key, got, want)
			}
		}
	}
}

// programs returns the files of an image in /usr/bin, and for links what they point to.
func programs(t *testing.T, recipe dockerfile.Recipe) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, c := range recipe.Copies {
		switch {
		case c.Stage == "build":
			found[c.To] = c.To
		case c.Stage == "":
			folder := filepath.Join("../../..", c.From)
			entries, err := os.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				target, err := os.Readlink(filepath.Join(folder, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				found[path.Join(c.To, e.Name())] = path.Join(c.To, target)
			}
		}
	}
	return found
}

// TestImagesHaveTheProgramsOfNVIDIAsManifests compares with the commands in NVIDIA's
// charts and static manifests for k8s-device-plugin, 0.17 to 0.20, which run everything
// from one image: "nvidia-device-plugin", "gpu-feature-discovery" (also with its path),
// "mps-control-daemon" and "config-manager". Those of the MIG manager are the programs of its image.
func TestImagesHaveTheProgramsOfNVIDIAsManifests(t *testing.T) {
	all := recipes(t)
	for component, names := range map[string][]string{
		"device-plugin":     {"nvidia-device-plugin", "gpu-feature-discovery", "mps-control-daemon", "config-manager"},
		"feature-discovery": {"gpu-feature-discovery"},
		"mig-manager":       {"nvidia-mig-parted", "nvidia-mig-manager", "nvidia-k8s-mig-manager", "k8s-mig-manager"},
	} {
		found := programs(t, all[component])
		for _, name := range names {
			target := found["/usr/bin/"+name]
			if target == "" || found[target] != target {
				t.Errorf("the image %s has no program %s: it leads to %q", component, name, target)
			}
		}
	}
	// PATH finds the programs, and the image runs the plugin without a command.
	if entry := all["device-plugin"].Entrypoint; !slices.Equal(entry, []string{"/usr/bin/device-plugin"}) {
		t.Errorf("the entrypoint is %s", strings.Join(entry, " "))
	}
}
