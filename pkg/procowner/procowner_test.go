package procowner_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/procowner"
)

func TestParse(t *testing.T) {
	const (
		uid, other = "0d2e3f44-1111-2222-3333-444455556666", "ffffffff-1111-2222-3333-444455556666"
		static     = "0123456789abcdef0123456789abcdef"
	)
	id, second := strings.Repeat("a", 64), strings.Repeat("b", 64)
	slice := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	for name, tc := range map[string]struct{ cgroups, pod, container, unit string }{
		"containerd, driver systemd":                    {"0::" + slice + "/cri-containerd-" + id + ".scope", uid, id, ""},
		"CRI-O, driver systemd":                         {"0::" + slice + "/crio-" + id + ".scope", uid, id, ""},
		"CRI-O, a cgroup in the container":              {"0::" + slice + "/crio-" + id + ".scope/container", uid, id, ""},
		"docker as the engine of Kubernetes, version 1": {"12:devices:" + slice + "/docker-" + id + ".scope\n1:name=systemd:" + slice + "/docker-" + id + ".scope\n", uid, id, ""},
		"driver cgroupfs":                               {"0::/kubepods/besteffort/pod" + uid + "/" + id, uid, id, ""},
		"driver cgroupfs, guaranteed, version 1":        {"5:memory:/kubepods/pod" + uid + "/" + id + "\n0::/system.slice/containerd.service\n", uid, id, ""},
		"containerd with a slice's name as a path":      {"0::/system.slice/containerd.service/kubepods-besteffort-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice:cri-containerd:" + id, uid, id, ""},
		"a static pod":                                  {"0::/kubepods.slice/kubepods-pod" + static + ".slice/cri-containerd-" + id + ".scope", static, id, ""},
		"kind, whose node is a container":               {"0::/system.slice/docker-" + second + ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-" + id + ".scope", uid, id, ""},
		"another cgroup namespace":                      {"0::/../../../kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-" + id + ".scope", uid, id, ""},
		"a container that makes cgroups with names":     {"0::" + slice + "/cri-containerd-" + id + ".scope/pod" + other + "/" + second, uid, id, ""},
		"the pause process of a pod without a scope":    {"0::" + slice, uid, "", ""},
		"docker":                                {"0::/system.slice/docker-" + id + ".scope", "", id, ""},
		"docker, driver cgroupfs":               {"0::/docker/" + id, "", id, ""},
		"podman":                                {"0::/machine.slice/libpod-" + id + ".scope/container", "", id, ""},
		"the monitor of podman is no container": {"0::/machine.slice/libpod-conmon-" + id + ".scope", "", "", "libpod-conmon-" + id + ".scope"},
		"a service":                             {"0::/system.slice/nvidia-persistenced.service", "", "", "nvidia-persistenced.service"},
		"a service, version 1":                  {"3:cpu,cpuacct:/\n1:name=systemd:/system.slice/dcgm.service\n0::/system.slice/dcgm.service", "", "", "dcgm.service"},
		"a session":                             {"0::/user.slice/user-0.slice/session-3.scope", "", "", "session-3.scope"},
		"a user's service":                      {"0::/user.slice/user-1.slice/user@1.service/app.slice/jupyter.service", "", "", "jupyter.service"},
		"a service with a name of control characters": {"0::/system.slice/\x1b[1m.service", "", "", "?[1m.service"},
		"the root":                    {"0::/", "", "", ""},
		"nothing":                     {"", "", "", ""},
		"a word that begins as a pod": {"0::/podman.slice/pod-1.service", "", "", "pod-1.service"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := procowner.Parse(tc.cgroups); got != (procowner.Owner{Pod: tc.pod, Container: tc.container, Unit: tc.unit}) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0::/kubepods/besteffort/pod0d2e3f44-1111-2222-3333-444455556666/" + strings.Repeat("a", 64))
	f.Add("1:name=systemd:/system.slice/a.service\n")
	f.Fuzz(func(t *testing.T, cgroups string) {
		o := procowner.Parse(cgroups)
		if strings.Contains(o.Pod, "/") || o.Container != "" && len(o.Container) != 64 || strings.ContainsAny(o.Unit, "\n\x1b/") {
			t.Errorf("%+v", o)
		}
	})
}

func TestPods(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ml_train-0_u1", "kube-system_etcd-node1_0123456789abcdef0123456789abcdef", "odd_u2", "a_b_c_d", "a_b_"} {
		assert.NilError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	got, err := procowner.Pods(dir)
	assert.NilError(t, err)
	want := map[string]procowner.Pod{
		"u1":                               {Namespace: "ml", Name: "train-0"},
		"0123456789abcdef0123456789abcdef": {Namespace: "kube-system", Name: "etcd-node1"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	if _, err := procowner.Pods(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
