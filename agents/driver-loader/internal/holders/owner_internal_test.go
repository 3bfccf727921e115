package holders

import (
	"strings"
	"testing"
)

func TestOwner(t *testing.T) {
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
			if pod, container, unit := owner(tc.cgroups); pod != tc.pod || container != tc.container || unit != tc.unit {
				t.Errorf("pod %q, container %q, unit %q", pod, container, unit)
			}
		})
	}
}

func FuzzOwner(f *testing.F) {
	f.Add("0::/kubepods/besteffort/pod0d2e3f44-1111-2222-3333-444455556666/" + strings.Repeat("a", 64))
	f.Add("1:name=systemd:/system.slice/a.service\n")
	f.Fuzz(func(t *testing.T, cgroups string) {
		pod, container, unit := owner(cgroups)
		if strings.Contains(pod, "/") || container != "" && len(container) != 64 || strings.ContainsAny(unit, "\n\x1b/") {
			t.Errorf("%q, %q, %q", pod, container, unit)
		}
	})
}
