package processes_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/dcgm-exporter/internal/podinfo"
	"outrigger.dev/agents/dcgm-exporter/internal/processes"
	"outrigger.dev/pkg/podresources"
)

const (
	uid    = "0d2e3f44-1111-2222-3333-444455556666"
	static = "0123456789abcdef0123456789abcdef"
)

// node is the file system of a node.
type node struct {
	t    *testing.T
	root string
}

func (n node) write(path, content string) {
	n.t.Helper()
	path = filepath.Join(n.root, path)
	assert.NilError(n.t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(n.t, os.WriteFile(path, []byte(content), 0o600))
}

func (n node) config(known processes.Pods) processes.Config {
	return processes.Config{Proc: filepath.Join(n.root, "proc"), Logs: filepath.Join(n.root, "pods"), Pods: known}
}

// byUID are pods that the API server knows.
type byUID map[string]podinfo.Pod

func (b byUID) ByUID(uid string) (podinfo.Pod, bool) {
	pod, ok := b[uid]
	return pod, ok
}

var main, side = strings.Repeat("a", 64), strings.Repeat("b", 64)

// run makes processes of each cgroup driver, version of cgroups and engine.
func run(t *testing.T) node {
	n := node{t, t.TempDir()}
	slice := "kubepods-burstable-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	for pid, cgroups := range map[int]string{
		10: "0::/kubepods.slice/kubepods-burstable.slice/" + slice + "/cri-containerd-" + main + ".scope\n",
		11: "0::/../../kubepods-burstable.slice/" + slice + "/crio-" + side + ".scope/nested/deeper\n",
		12: "11:devices:/kubepods/burstable/pod" + uid + "/" + main + "\n1:name=systemd:/kubepods/burstable/pod" + uid + "/" + main + "\n",
		13: "0::/kubepods/pod" + static + "/" + side + "\n",
		14: "0::/system.slice/gdm.service\n",
		15: "0::/system.slice/docker-" + main + ".scope\n",
		16: "",
	} {
		n.write("proc/"+strconv.Itoa(pid)+"/cgroup", cgroups)
	}
	return n
}

var all = []int{10, 11, 12, 13, 14, 15, 16, 17}

func TestResolveWithoutTheAPI(t *testing.T) {
	n := run(t)
	n.write("pods/ml_train-0_"+uid+"/main/0.log", "")
	n.write("pods/kube-system_etcd-node1_"+static+"/etcd/0.log", "")
	got, err := processes.New(n.config(nil)).Resolve(all)
	assert.NilError(t, err)
	want := map[int]processes.Process{
		10: {PodUID: uid, Namespace: "ml", Pod: "train-0", ContainerID: main},
		11: {PodUID: uid, Namespace: "ml", Pod: "train-0", ContainerID: side},
		12: {PodUID: uid, Namespace: "ml", Pod: "train-0", ContainerID: main},
		13: {PodUID: static, Namespace: "kube-system", Pod: "etcd-node1", ContainerID: side},
		14: {Unit: "gdm.service"},
		15: {ContainerID: main},
		16: {},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("processes (-want +got):\n%s", d)
	}
}

func TestResolveWithTheAPIAndWithoutTheFolderOfLogs(t *testing.T) {
	n := run(t)
	known := byUID{
		uid:    {Namespace: "ml", Name: "train-0", Containers: map[string]string{main: "main", side: "side"}},
		static: {Namespace: "kube-system", Name: "etcd-node1"},
	}
	got, err := processes.New(n.config(known)).Resolve(all)
	assert.NilError(t, err)
	for pid, want := range map[int]string{10: "ml/train-0/main", 11: "ml/train-0/side", 12: "ml/train-0/main", 13: "kube-system/etcd-node1/"} {
		if p := got[pid]; p.Namespace+"/"+p.Pod+"/"+p.Container != want {
			t.Errorf("process %d: %+v, want %s", pid, p, want)
		}
	}
}

func TestResolveReadsTheNamesOfNewPods(t *testing.T) {
	n := run(t)
	r := processes.New(n.config((*podinfo.Pods)(nil)))
	got, err := r.Resolve([]int{10})
	if err == nil || !strings.Contains(err.Error(), "mount this folder") || got[10].PodUID != uid || got[10].Pod != "" {
		t.Errorf("without the folder: %+v, error %v", got, err)
	}
	n.write("pods/other_pod_"+static+"/main/0.log", "")
	if got, err = r.Resolve([]int{10, 13}); err != nil || got[10].Pod != "" || got[13].Pod != "pod" {
		t.Errorf("before the pod has a folder: %+v, error %v", got, err)
	}
	n.write("pods/ml_train-0_"+uid+"/main/0.log", "")
	if got, err = r.Resolve([]int{10}); err != nil || got[10].Pod != "train-0" {
		t.Errorf("with its folder: %+v, error %v", got, err)
	}
	assert.NilError(t, os.RemoveAll(filepath.Join(n.root, "pods")))
	if got, err = r.Resolve([]int{10}); err != nil || got[10].Pod != "train-0" {
		t.Errorf("a name that is known is not read again: %+v, error %v", got, err)
	}
}

func TestResolveNamesWhatCannotBeRead(t *testing.T) {
	n := run(t)
	n.write("pods/ml_train-0_"+uid+"/main/0.log", "")
	n.write("proc/20/cgroup", strings.Repeat("1:x:/\n", 20000))
	assert.NilError(t, os.MkdirAll(filepath.Join(n.root, "proc/21/cgroup"), 0o755))
	for _, pid := range []int{20, 21} {
		got, err := processes.New(n.config(nil)).Resolve([]int{10, pid})
		if err == nil || !strings.Contains(err.Error(), "cgroups of process "+strconv.Itoa(pid)) {
			t.Errorf("error %v", err)
		}
		if len(got) != 1 || got[10].Pod != "train-0" {
			t.Errorf("processes %+v", got)
		}
	}
}

func TestUserOfAProcess(t *testing.T) {
	user := func(pod, container, replica string) podresources.User {
		return podresources.User{Namespace: "ml", Pod: pod, Container: container, Replica: replica}
	}
	shared := []podresources.User{user("a", "main", "1"), user("a", "main", "2"), user("b", "main", "0"), user("b", "side", "3")}
	for name, c := range map[string]struct {
		process processes.Process
		want    podresources.User
	}{
		"by the container":                    {processes.Process{Namespace: "ml", Pod: "b", Container: "side"}, user("b", "side", "3")},
		"the only container of the pod":       {processes.Process{Namespace: "ml", Pod: "a"}, user("a", "main", "1")},
		"one of two containers, not known":    {processes.Process{Namespace: "ml", Pod: "b"}, podresources.User{}},
		"a container without the device":      {processes.Process{Namespace: "ml", Pod: "a", Container: "init"}, podresources.User{}},
		"a pod of another namespace":          {processes.Process{Namespace: "x", Pod: "a"}, podresources.User{}},
		"a process of no pod":                 {processes.Process{Unit: "gdm.service"}, podresources.User{}},
		"a pod of which the name is unknown":  {processes.Process{PodUID: uid}, podresources.User{}},
		"a pod that does not have the device": {processes.Process{Namespace: "ml", Pod: "c"}, podresources.User{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := c.process.User(shared)
			if got != c.want || ok != (c.want != podresources.User{}) {
				t.Errorf("got %+v, %v", got, ok)
			}
		})
	}
}
