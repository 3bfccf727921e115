package label_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/pkg/pci"
)

func TestPresence(t *testing.T) {
	gpus := []pci.Device{{Class: 0x040300}, {Class: 0x030200}}
	const present = "nvidia.com/gpu.present=true pci-10de.present=true nvidia.com/gpu.deploy.client=true nvidia.com/gpu.deploy.container-toolkit=true" +
		" nvidia.com/gpu.deploy.dcgm=true nvidia.com/gpu.deploy.dcgm-exporter=true nvidia.com/gpu.deploy.device-plugin=true nvidia.com/gpu.deploy.driver=true" +
		" nvidia.com/gpu.deploy.gpu-feature-discovery=true nvidia.com/gpu.deploy.node-status-exporter=true nvidia.com/gpu.deploy.operator-validator=true "
	for name, tc := range map[string]struct {
		devices []pci.Device
		system  machine.System
		want    string
	}{
		"Ubuntu": {
			gpus,
			machine.System{Kernel: "6.8.0-45-generic", ID: "ubuntu", VersionID: "24.04"},
			present + "kernel-version.full=6.8.0-45-generic system-os_release.ID=ubuntu system-os_release.VERSION_ID=24.04 system-os_release.VERSION_ID.major=24",
		},
		"Debian, a version of one number": {
			gpus,
			machine.System{Kernel: "6.1.0-25-amd64", ID: "debian", VersionID: "12"},
			present + "kernel-version.full=6.1.0-25-amd64 system-os_release.ID=debian system-os_release.VERSION_ID=12 system-os_release.VERSION_ID.major=12",
		},
		"CoreOS": {
			gpus,
			machine.System{Kernel: "5.14.0-427.40.1.el9_4.x86_64", ID: "rhcos", VersionID: "4.17", OSTreeVersion: "417.94.202410090854-0"},
			present + "kernel-version.full=5.14.0-427.40.1.el9_4.x86_64 system-os_release.ID=rhcos system-os_release.VERSION_ID=4.17" +
				" system-os_release.VERSION_ID.major=4 system-os_release.OSTREE_VERSION=417.94.202410090854-0",
		},
		"a rolling distribution":              {gpus, machine.System{Kernel: "6.11.1-arch1-1", ID: "arch"}, present + "kernel-version.full=6.11.1-arch1-1 system-os_release.ID=arch"},
		"a version that begins with a letter": {gpus, machine.System{ID: "x", VersionID: "v1.2"}, present + "system-os_release.ID=x system-os_release.VERSION_ID=v1.2"},
		"a version in words":                  {gpus, machine.System{ID: "x", VersionID: "1 (One)"}, present + "system-os_release.ID=x"},
		"a kernel with invalid characters":    {gpus, machine.System{Kernel: "6.6.1+mine#2-"}, present + "kernel-version.full=6.6.1_mine_2"},
		"a kernel with a name that is too long": {
			gpus,
			machine.System{Kernel: "6.6.1-" + strings.Repeat("a", 58)},
			present,
		},
		"nothing is known of the system": {gpus, machine.System{}, present},
		"no GPU":                         {[]pci.Device{{Class: 0x020700}}, machine.System{Kernel: "6.8.0"}, ""},
		"no device":                      {nil, machine.System{Kernel: "6.8.0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{}
			for word := range strings.FieldsSeq(tc.want) {
				key, value, _ := strings.Cut(word, "=")
				if !strings.Contains(key, "/") {
					key = "feature.node.kubernetes.io/" + key
				}
				want[key] = value
			}
			if diff := cmp.Diff(want, label.Presence(tc.devices, tc.system), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeployLabelsOfOthersStay looks at labels of a Node that another writer owns.
func TestDeployLabelsOfOthersStay(t *testing.T) {
	const client = "nvidia.com/gpu.deploy.client"
	for text, want := range map[string]bool{
		client + "=false": true, client + "=paused-for-driver-upgrade": true, client + "=": false, "nvidia.com/gpu.present=false": false,
		"feature.node.kubernetes.io/kernel-version.full=1": true, "feature.node.kubernetes.io/kernel-version.full=": true,
	} {
		key, value, _ := strings.Cut(text, "=")
		if got := label.Yields(key, value); got != want {
			t.Errorf("presence yields %s to another writer: %v, want %v", text, got, want)
		}
	}
	off := map[string]string{"nvidia.com/gpu.deploy.operands": "false"}
	if !label.Excludes(off, client) || label.Excludes(off, "nvidia.com/gpu.present") || label.Excludes(map[string]string{}, client) {
		t.Error("nvidia.com/gpu.deploy.operands=false is for the labels of NVIDIA's operator, and for all of them")
	}
}

// FuzzAnySystemGivesValidLabels checks that any text in os-release and in the kernel
// release gives valid labels.
func FuzzAnySystemGivesValidLabels(f *testing.F) {
	f.Add("6.8.0-45-generic", "ubuntu", "24.04", "")
	f.Add("6.6.1+-", "\"x", "1.", "-")
	f.Fuzz(func(t *testing.T, kernel, id, version, ostree string) {
		s := machine.System{Kernel: kernel, ID: id, VersionID: version, OSTreeVersion: ostree}
		for key, value := range label.Presence([]pci.Device{{Class: 0x030000}}, s) {
			if value == "" || !valueText.MatchString(value) {
				t.Errorf("Kubernetes rejects %s=%q, or it is empty", key, value)
			}
		}
	})
}
