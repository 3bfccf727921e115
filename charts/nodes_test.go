package charts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// kinds are nodes of two kernels and of three distributions. The last one has no labels yet.
var kinds = []Node{
	{Kernel: "6.8.0-60-generic", ID: "ubuntu", Version: "22.04", Major: "22"},
	{Kernel: "6.8.0-64-generic", ID: "ubuntu", Version: "22.04", Major: "22"},
	{Kernel: "5.14.0-427.40.1.el9_4.x86_64", ID: "rhel", Version: "9.4", Major: "9"},
	{Kernel: "5.14.0-427.40.1.el9_4.x86_64", ID: "rhel", Version: "9.5", Major: "9"},
	{Kernel: "6.6.1_mine", ID: "debian", Version: "12", Major: "12"},
	{},
}

const nfd = "feature.node.kubernetes.io/"

// TestEachKindOfNodeHasItsDriver looks at the DaemonSets of the driver for a version, by their names: the image, the
// labels of their nodes, and the name that the agent knows.
func TestEachKindOfNodeHasItsDriver(t *testing.T) {
	for name, tc := range map[string]struct {
		values string
		nodes  []Node
		want   []string
	}{
		"a whole tag": {"version: 580.95.05-ubuntu22.04", kinds, []string{"gpu-operator-driver-loader: 580.95.05-ubuntu22.04"}},
		"a digest":    {"version: 'sha256:0123'", kinds, []string{"gpu-operator-driver-loader: sha256:0123"}},
		"no distribution": {"version: 580.95.05", kinds, []string{
			"gpu-operator-driver-loader-debian12: 580.95.05-debian12 system-os_release.ID=debian system-os_release.VERSION_ID=12",
			"gpu-operator-driver-loader-rhel9: 580.95.05-rhel9 system-os_release.ID=rhel system-os_release.VERSION_ID.major=9",
			"gpu-operator-driver-loader-ubuntu22-04: 580.95.05-ubuntu22.04 system-os_release.ID=ubuntu system-os_release.VERSION_ID=22.04",
		}},
		"precompiled, by branch": {"{version: '580', usePrecompiled: true}", kinds[:3], []string{
			"gpu-operator-driver-loader-5-14-0-427-40-1-el9-4-x86-64-rhel9: 580-5.14.0-427.40.1.el9_4.x86_64-rhel9" +
				" kernel-version.full=5.14.0-427.40.1.el9_4.x86_64 system-os_release.ID=rhel system-os_release.VERSION_ID.major=9",
			"gpu-operator-driver-loader-6-8-0-60-generic-ubuntu22-04: 580-6.8.0-60-generic-ubuntu22.04" +
				" kernel-version.full=6.8.0-60-generic system-os_release.ID=ubuntu system-os_release.VERSION_ID=22.04",
			"gpu-operator-driver-loader-6-8-0-64-generic-ubuntu22-04: 580-6.8.0-64-generic-ubuntu22.04" +
				" kernel-version.full=6.8.0-64-generic system-os_release.ID=ubuntu system-os_release.VERSION_ID=22.04",
		}},
		"another nodeSelector": {"{version: '580', nodeSelector: {zone: a}}", kinds[:1], []string{
			"gpu-operator-driver-loader-ubuntu22-04: 580-ubuntu22.04 system-os_release.ID=ubuntu system-os_release.VERSION_ID=22.04 zone=a",
		}},
		"a nodeSelector of one distribution": {"{version: '580', nodeSelector: {" + nfd + "system-os_release.ID: ubuntu}}", kinds, []string{
			"gpu-operator-driver-loader-ubuntu22-04: 580-ubuntu22.04 system-os_release.ID=ubuntu system-os_release.VERSION_ID=22.04",
		}},
		"an optional module": {"{version: 580.95.05-ubuntu22.04, gds: {enabled: true, repository: r, version: 2.26.6}, gdrcopy: {enabled: true, repository: r, version: v2.5}}", kinds[:2], []string{
			"gpu-operator-driver-loader-ubuntu22-04: 580.95.05-ubuntu22.04 r/gdrdrv:v2.5-ubuntu22.04 r/nvidia-fs:2.26.6-ubuntu22.04 system-os_release.ID=ubuntu system-os_release.VERSION_ID=22.04",
		}},
		"a precompiled driver with an optional module": {"{version: '580', usePrecompiled: true, gds: {enabled: true, repository: r, version: 2.26.6}}", kinds[:1], []string{
			"gpu-operator-driver-loader-6-8-0-60-generic-ubuntu22-04: 580-6.8.0-60-generic-ubuntu22.04 kernel-version.full=6.8.0-60-generic" +
				" r/nvidia-fs:2.26.6-ubuntu22.04 system-os_release.ID=ubuntu system-os_release.VERSION_ID=22.04",
		}},
		"no nodes": {"version: 580.95.05", []Node{}, nil},
		"a distribution of major 9": {"version: '580'", []Node{{ID: "rocky", Version: "9.4", Major: "9"}, {ID: "arch"}}, []string{
			"gpu-operator-driver-loader-rocky9: 580-rocky9 system-os_release.ID=rocky system-os_release.VERSION_ID.major=9",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := driverSets(t, tc.values, tc.nodes); !slices.Equal(got, tc.want) {
				t.Errorf("DaemonSets:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

// TestOptionalModulesOfNVIDIAsChart sets the keys of NVIDIA's chart for nvidia_fs and gdrdrv.
func TestOptionalModulesOfNVIDIAsChart(t *testing.T) {
	for values, want := range map[string][]string{
		"{driver: {enabled: true, repository: r.example.org, version: 580.95.05-ubuntu22.04}, gds: {enabled: true, repository: theirs, version: 2-ubuntu22.04}, gdrcopy: {enabled: false, version: 3-ubuntu22.04}}": {
			"GDS_ENABLED=true", "GDRCOPY_ENABLED=false", "theirs/nvidia-fs:2-ubuntu22.04",
		},
		"{driver: {enabled: true, repository: r.example.org, version: 580.95.05-ubuntu22.04, gdrcopy: {enabled: true, repository: ours, version: 1-ubuntu22.04}}, gdrcopy: {enabled: true, repository: theirs, image: x, version: 3-ubuntu22.04}}": {
			"GDS_ENABLED=false", "GDRCOPY_ENABLED=true", "ours/gdrdrv:1-ubuntu22.04",
		},
	} {
		stages, err := Stages(installed(valuesFrom(t, values)))
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(stages, func(s Stage) bool { return s.Name == "driver-loader" })
		manifest := regexp.MustCompile(`- name: ([A-Z_]+)\n +value: "?([^"\n]*)"?`).ReplaceAllString(stages[at].Manifest, "$1=$2")
		for _, part := range want {
			if !strings.Contains(manifest, part) {
				t.Errorf("%s: the DaemonSet does not have %s", values, part)
			}
		}
		if strings.Contains(manifest, "theirs/x") {
			t.Errorf("%s: driver.gdrcopy does not take precedence", values)
		}
	}
}

// driverSets returns a line for each DaemonSet of the driver loader.
func driverSets(t *testing.T, driver string, nodes []Node) []string {
	t.Helper()
	values := valuesFrom(t, driver)
	values["enabled"], values["repository"] = true, "r.example.org"
	r := installed(map[string]any{"driver": values})
	r.Nodes = nodes
	stages, err := Stages(r)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(stages, func(s Stage) bool { return s.Name == "driver-loader" })
	var lines []string
	for _, document := range documents(stages[at].Manifest) {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Selector struct{ MatchLabels map[string]string }
				Template struct {
					Metadata struct{ Labels map[string]string }
					Spec     struct {
						NodeSelector map[string]string
						Containers   []struct {
							Image string
							Env   []struct{ Name, Value string }
						}
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind != "DaemonSet" {
			continue
		}
		pod, container := o.Spec.Template, o.Spec.Template.Spec.Containers[0]
		var selected []string
		for label, value := range pod.Spec.NodeSelector {
			selected = append(selected, strings.TrimPrefix(label, nfd)+"="+value)
		}
		for _, v := range container.Env {
			if v.Name == "DAEMONSET_NAME" && v.Value != o.Metadata.Name {
				t.Errorf("the agent of %s believes that its DaemonSet is %s", o.Metadata.Name, v.Value)
			}
		}
		for label, value := range o.Spec.Selector.MatchLabels {
			if pod.Metadata.Labels[label] != value {
				t.Errorf("%s does not select its own pods by %s", o.Metadata.Name, label)
			}
		}
		for _, c := range pod.Spec.Containers[1:] {
			selected = append(selected, c.Image)
		}
		slices.Sort(selected)
		tag := strings.TrimLeft(strings.TrimPrefix(container.Image, "r.example.org/driver"), ":@")
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: %s %s", o.Metadata.Name, tag, strings.Join(selected, " "))))
	}
	slices.Sort(lines)
	return lines
}

// TestTheReleaseGrantsDriversByNode looks at the rights of a Helm release for DaemonSets whose names only the
// orchestrator knows.
func TestTheReleaseGrantsDriversByNode(t *testing.T) {
	c, err := Load(umbrella)
	if err != nil {
		t.Fatal(err)
	}
	for version, open := range map[string]bool{"580.95.05": true, "580.95.05-ubuntu22.04": false} {
		manifest, err := Render(c, installed(valuesFrom(t, "driver: {enabled: true, repository: r.example.org, version: "+version+"}")))
		if err != nil {
			t.Fatal(err)
		}
		for what, pattern := range map[string]string{
			"a rule for all DaemonSets": `resources: \[daemonsets\]\n +verbs: \[get, create, patch\]`,
			"a limit of their names":    `request\.namespace != 'gpu-operator-resources' \|\|\n +request\.name in \[.*"gpu-operator-device-plugin".*\] \|\| \["gpu-operator-driver-loader-"\]\.exists`,
		} {
			if got := regexp.MustCompile(pattern).MatchString(manifest); got != open {
				t.Errorf("%s: the release has %s: %v, want %v", version, what, got, open)
			}
		}
		own := regexp.MustCompile(`resourceNames:\n +- gpu-operator-driver-loader\n +resources:\n +- daemonsets\n`)
		if got := own.MatchString(manifest); got == open {
			t.Errorf("%s: the agent may read only one DaemonSet: %v, want %v", version, got, !open)
		}
	}
}
