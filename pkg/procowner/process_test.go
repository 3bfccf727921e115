package procowner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/procowner"
)

func TestProcesses(t *testing.T) {
	const uid = "0d2e3f44-1111-2222-3333-444455556666"
	unnamed := strings.ReplaceAll(uid, "0d2e", "ffff")
	dir := t.TempDir()
	for file, content := range map[string]string{
		"proc/7/comm": "nvidia-\x1bpersist\n", "proc/7/cgroup": "0::/system.slice/nvidia-persistenced.service\n",
		"proc/8/comm": "python3\n", "proc/8/cgroup": "0::/kubepods/pod" + uid + "/" + strings.Repeat("a", 64) + "\n",
		"proc/9/comm": "sleep\n", "proc/9/cgroup": "0::/kubepods/pod" + unnamed + "\n",
		"pods/ml_train-0_" + uid + "/main/0.log": "",
	} {
		path := filepath.Join(dir, file)
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	of := func(root procowner.Root) []procowner.Process {
		var out []procowner.Process
		for _, pid := range []int{9, 7, 10, 8} {
			out = append(out, root.Process(pid))
		}
		root.NamePods(out)
		return out
	}
	want := []procowner.Process{
		{PID: 9, Command: "sleep", Owner: procowner.Owner{Pod: unnamed}},
		{PID: 7, Command: "nvidia-?persist", Owner: procowner.Owner{Unit: "nvidia-persistenced.service"}},
		{PID: 10}, // it has ended
		{
			PID: 8, Command: "python3", Owner: procowner.Owner{Pod: uid, Container: strings.Repeat("a", 64)},
			Pod: procowner.Pod{Namespace: "ml", Name: "train-0"},
		},
	}
	if d := cmp.Diff(want, of(procowner.Root{Proc: dir + "/proc", PodLogs: dir + "/pods"})); d != "" {
		t.Errorf("processes (-want +got):\n%s", d)
	}
	want[3].Pod = procowner.Pod{}
	if d := cmp.Diff(want, of(procowner.Root{Proc: dir + "/proc", PodLogs: dir + "/none"})); d != "" {
		t.Errorf("without the folder of logs (-want +got):\n%s", d)
	}
}

func TestAProcessIsNamed(t *testing.T) {
	for want, p := range map[string]procowner.Process{
		"pod default/train, python3 (pid 7)": {
			PID: 7, Command: "python3", Owner: procowner.Owner{Pod: "u", Container: "c"}, Pod: procowner.Pod{Namespace: "default", Name: "train"},
		},
		"pod with uid u, python3 (pid 7)":          {PID: 7, Command: "python3", Owner: procowner.Owner{Pod: "u"}},
		"container abc, process (pid 7)":           {PID: 7, Owner: procowner.Owner{Container: "abc", Unit: "docker-abc.scope"}},
		"unit dcgm.service, nv-hostengine (pid 7)": {PID: 7, Command: "nv-hostengine", Owner: procowner.Owner{Unit: "dcgm.service"}},
		"Xorg (pid 7)": {PID: 7, Command: "Xorg"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
