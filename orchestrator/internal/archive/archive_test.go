package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/archive"
	"outrigger.dev/orchestrator/internal/facts"
)

func taken() time.Time { return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) }

// seed is in each secret of secretive.
const seed = "Xq7SEEDzP9"

// secretive returns facts with something of each kind, and with seeds in all places that have secrets.
func secretive() facts.Facts {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: "gpu-operator", Name: name, CreationTimestamp: metav1.NewTime(taken()), Labels: map[string]string{"a": "b: c"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: seed}},
			Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": seed, "registry": "https://robot:" + seed + "@registry.example.com"},
		}
	}
	container := corev1.Container{
		Name: "main", Args: []string{"--password", seed, "--api-token=" + seed}, Command: []string{"sh", "-c", "export PASSWORD='" + seed + "'; run"},
		Env: []corev1.EnvVar{{Name: "HARMLESS", Value: seed}, {Name: "EMPTY"}, {Name: "REF", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
	}
	spec := corev1.PodSpec{Containers: []corev1.Container{container}, InitContainers: []corev1.Container{container}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}}
	node := &corev1.Node{ObjectMeta: meta("n1"), Status: corev1.NodeStatus{
		Capacity: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}, Images: []corev1.ContainerImage{{Names: []string{seed}}},
		Conditions: []corev1.NodeCondition{{Type: "GPUReady", Message: "pull https://a:" + seed + "@b failed:\n  line 2\n\n- line 3", LastTransitionTime: metav1.NewTime(taken())}},
	}}
	node.Namespace = ""
	return facts.Facts{
		Taken: taken(), Server: "v1.36.3",
		Nodes:          []*corev1.Node{node, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}},
		DaemonSets:     []*appsv1.DaemonSet{{ObjectMeta: meta("device-plugin"), Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}},
		Pods:           []*corev1.Pod{{ObjectMeta: meta("p1"), Spec: spec, Status: corev1.PodStatus{Message: "token: " + seed}}},
		Events:         []*corev1.Event{{ObjectMeta: meta("e1"), Message: "Authorization: Bearer " + seed, LastTimestamp: metav1.NewTime(taken())}},
		Quotas:         []*corev1.ResourceQuota{{ObjectMeta: meta("q")}},
		RuntimeClasses: []*nodev1.RuntimeClass{{ObjectMeta: metav1.ObjectMeta{Name: "nvidia"}, Handler: "nvidia"}},
		Claims:         []*resourcev1.ResourceClaim{{ObjectMeta: meta("c")}},
		Slices:         []*resourcev1.ResourceSlice{{ObjectMeta: meta("s"), Spec: resourcev1.ResourceSliceSpec{Devices: []resourcev1.Device{{Name: "gpu-0"}}}}},
		Classes:        []*resourcev1.DeviceClass{{ObjectMeta: meta("gpu.nvidia.com")}},
		Policies: []*unstructured.Unstructured{{Object: map[string]any{
			"apiVersion": "outrigger.dev/v1alpha1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "gpu"},
			"spec": map[string]any{
				"driver": map[string]any{"env": []any{map[string]any{"name": "HTTPS_PROXY", "value": seed}}, "licensingConfig": map[string]any{"secretName": "licence"}},
				"count":  int64(3), "extraObjects": []any{map[string]any{"kind": "Secret", "data": map[string]any{"a": seed}}},
			},
		}}},
		Others:  []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "x"}, "spec": map[string]any{"password": seed}}}},
		Answers: []facts.Answer{{Node: "n1", Namespace: "gpu-operator", Pod: "p1", Command: []string{"device-plugin", "snapshot"}, Output: "{\"token\": \"" + seed + "\"}\nnext: line\n", Error: "password=" + seed}},
		Unseen:  []facts.Unseen{{What: "events of all namespaces", Why: "the account may not list events: token=" + seed}},
	}
}

// logs returns logs with seeds.
func logs() []archive.Log {
	key := "-----BEGIN PRIVATE KEY-----\n" + seed + "\n-----END PRIVATE KEY-----\n"
	return []archive.Log{
		{Namespace: "gpu-operator", Pod: "p1", Container: "main", Text: "starts\n" + key + "level=info url=https://x:" + seed + "@y/ a=1\n"},
		{Namespace: "gpu-operator", Pod: "p1", Container: "main", Previous: true, Text: `{"msg":"login","password":"` + seed + `","n":1}` + "\n\x1b[31mred\x1b[0m\t--token " + seed + "\n"},
	}
}

// write writes an archive with a limit, and returns its index and size.
func write(t *testing.T, dest string, limit int64, f facts.Facts, all []archive.Log) (archive.Index, int64) {
	t.Helper()
	w, err := archive.Create(dest, f.Taken, limit)
	assert.NilError(t, err)
	defer w.Abort()
	assert.NilError(t, w.Facts(f))
	for _, l := range all {
		_, err := w.Log(l)
		assert.NilError(t, err)
	}
	index, size, err := w.Commit()
	assert.NilError(t, err)
	return index, size
}

// contents returns all bytes of an archive, unpacked.
func contents(t *testing.T, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		assert.NilError(t, filepath.WalkDir(name, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(file)
			rel, _ := filepath.Rel(name, file)
			files[rel] = string(content)
			return err
		}))
		return files
	}
	file, err := os.Open(name)
	assert.NilError(t, err)
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	assert.NilError(t, err)
	for in := tar.NewReader(unpacked); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		assert.NilError(t, err)
		content, err := io.ReadAll(in)
		assert.NilError(t, err)
		_, rel, _ := strings.Cut(head.Name, "/")
		files[rel] = string(content)
	}
}

// destinations returns a folder and a file.
func destinations(t *testing.T) []string {
	dir := t.TempDir()
	return []string{filepath.Join(dir, "folder"), filepath.Join(dir, "packed.tar.gz")}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	out, err := json.MarshalIndent(v, "", " ")
	assert.NilError(t, err)
	return string(out)
}

func TestNoSecretIsWritten(t *testing.T) {
	for _, dest := range destinations(t) {
		index, _ := write(t, dest, archive.MaxSize, secretive(), logs())
		files := contents(t, dest)
		for name, content := range files {
			if i := strings.Index(content, seed); i >= 0 {
				t.Errorf("%s has a secret: …%s…", name, content[max(0, i-60):i+len(seed)])
			}
		}
		if got := files["logs/gpu-operator/p1/main.previous.log"]; got != "{\"msg\":\"login\",\"password\":\"REMOVED\",\"n\":1}\n?[31mred?[0m\t--token REMOVED\n" {
			t.Errorf("log %q", got)
		}
		removed := map[string]int{}
		for _, r := range index.Removed {
			removed[r.What] += r.Count
		}
		assert.DeepEqual(t, removed, map[string]int{
			"values of environment variables": 5, "annotation kubectl.kubernetes.io/last-applied-configuration": 8, "credentials in URLs": 10,
			"passwords and tokens": 19, "private keys": 1, "contents of Secrets": 1,
		})
		if len(index.Files) != len(files)-1 {
			t.Errorf("the index lists %d files of %d", len(index.Files), len(files))
		}
	}
}

// What Read returns, written again, is read as the same.
func TestWhatIsWrittenIsRead(t *testing.T) {
	for i, dest := range destinations(t) {
		write(t, dest, archive.MaxSize, secretive(), logs())
		clean, err := archive.Read(dest)
		assert.NilError(t, err)
		if clean.Nodes[0].Status.Conditions[0].Message != "pull https://REMOVED@b failed:\n  line 2\n\n- line 3" || clean.Server != "v1.36.3" || len(clean.Events) != 1 {
			t.Errorf("read %s", asJSON(t, clean))
		}
		second := destinations(t)[1-i]
		write(t, second, archive.MaxSize, clean, nil)
		again, err := archive.Read(second)
		assert.NilError(t, err)
		assert.Equal(t, asJSON(t, again), asJSON(t, clean))
	}
}

func TestAnEmptyClusterIsRead(t *testing.T) {
	for _, dest := range destinations(t) {
		write(t, dest, archive.MaxSize, facts.Facts{Taken: taken()}, nil)
		f, err := archive.Read(dest)
		assert.NilError(t, err)
		assert.Equal(t, asJSON(t, f), asJSON(t, facts.Facts{Taken: taken()}))
	}
}

// crowd returns facts that cannot be compressed well. At the end are a broken node, a pod that holds a GPU, and a pod that is not
// ready.
func crowd(nodes int) facts.Facts {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		return fmt.Sprintf("%x%x%x%x", random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64())
	}
	f := facts.Facts{Taken: taken()}
	for i := range nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%05d", i), Labels: map[string]string{"nvidia.com/gpu.present": "true", "a": word(), "b": word()}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True"}, {Type: "GPUReady", Status: "True"}}
		n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
		n.Status.Allocatable = n.Status.Capacity
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%05d", i), Annotations: map[string]string{"a": word(), "b": word()}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True"}}
		f.Nodes, f.Pods = append(f.Nodes, n), append(f.Pods, p)
		f.Answers = append(f.Answers, facts.Answer{Node: n.Name, Output: word()})
	}
	f.Nodes[nodes-1].Status.Allocatable = nil
	f.Pods[nodes-2].Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}}
	f.Pods[nodes-1].Status.Conditions = nil
	return f
}

func TestSizeIsBounded(t *testing.T) {
	const nodes, limit = 1000, 1_600_000
	all := make([]archive.Log, nodes)
	f := crowd(nodes)
	for i := range all {
		all[i] = archive.Log{Namespace: "a", Pod: f.Pods[i].Name, Container: "main", Text: strings.Repeat(f.Nodes[i].Labels["a"]+"\n", 20)}
	}
	for _, dest := range destinations(t) {
		index, size := write(t, dest, limit, f, all)
		sum := int64(0)
		if info, err := os.Stat(dest); err == nil && !info.IsDir() {
			sum = info.Size()
		} else {
			for _, content := range contents(t, dest) {
				sum += int64(len(content))
			}
		}
		if sum > limit || size != sum {
			t.Errorf("%s has %d bytes, Commit says %d, the limit is %d", dest, sum, size, limit)
		}
		read, err := archive.Read(dest)
		assert.NilError(t, err)
		if len(read.Nodes) == 0 || len(read.Nodes) == nodes || read.Nodes[len(read.Nodes)-1].Name != f.Nodes[nodes-1].Name {
			t.Errorf("%d nodes, the broken one is missing, or nothing is", len(read.Nodes))
		}
		if last := len(read.Pods) - 1; last < 1 || read.Pods[last].Name != f.Pods[nodes-1].Name || read.Pods[last-1].Name != f.Pods[nodes-2].Name {
			t.Errorf("%d pods, and not the ones that are not ready or hold a GPU", len(read.Pods))
		}
		if what := fmt.Sprintf("%d of %d nodes", nodes-len(read.Nodes), nodes); index.Unseen[0].What != what {
			t.Errorf("unseen: %v, want %s", index.Unseen, what)
		}
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	for _, dest := range destinations(t) {
		w, err := archive.Create(dest, taken(), archive.MaxSize)
		assert.NilError(t, err)
		assert.NilError(t, w.Facts(secretive()))
		entries, err := os.ReadDir(filepath.Dir(dest))
		assert.NilError(t, err)
		if len(entries) != 1 || !strings.Contains(entries[0].Name(), ".partial-") {
			t.Errorf("before Commit, the folder has %v", entries)
		}
		w.Abort()
		if entries, _ := os.ReadDir(filepath.Dir(dest)); len(entries) > 0 {
			t.Errorf("Abort left %v", entries)
		}
		write(t, dest, archive.MaxSize, facts.Facts{}, nil)
		if _, err := archive.Create(dest, taken(), archive.MaxSize); err == nil || !strings.Contains(err.Error(), "--dest") {
			t.Errorf("an archive was overwritten: %v", err)
		}
		assert.NilError(t, os.RemoveAll(dest))
	}
}

// pack returns the path of a .tar.gz with entries.
func pack(t *testing.T, entries ...tar.Header) string {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	to := tar.NewWriter(packed)
	for _, head := range entries {
		content := []byte("format: 1\n")
		if head.Size == 0 && head.Typeflag == tar.TypeReg {
			head.Size = int64(len(content))
		}
		assert.NilError(t, to.WriteHeader(&head))
		if head.Typeflag == tar.TypeReg && head.Size == int64(len(content)) {
			_, err := to.Write(content)
			assert.NilError(t, err)
		}
	}
	_ = to.Close()
	assert.NilError(t, packed.Close())
	file := filepath.Join(t.TempDir(), "hostile.tar.gz")
	assert.NilError(t, os.WriteFile(file, out.Bytes(), 0o600))
	return file
}

func TestHostileArchives(t *testing.T) {
	index := tar.Header{Name: "a/index.yaml", Typeflag: tar.TypeReg}
	for name, c := range map[string]struct {
		file   string
		unseen string
		err    string
	}{
		"a path out of it": {file: pack(t, index, tar.Header{Name: "../../etc/nodes.yaml", Typeflag: tar.TypeReg}), unseen: "its path leads out"},
		"an absolute path": {file: pack(t, index, tar.Header{Name: "/etc/nodes.yaml", Typeflag: tar.TypeReg}), unseen: "its path leads out"},
		"a link":           {file: pack(t, index, tar.Header{Name: "a/nodes.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), unseen: "links are not followed"},
		"a device":         {file: pack(t, index, tar.Header{Name: "a/nodes.yaml", Typeflag: tar.TypeChar}), unseen: "not a regular file"},
		"a huge file":      {file: pack(t, index, tar.Header{Name: "a/nodes.yaml", Typeflag: tar.TypeReg, Size: 1 << 40}), err: "ends too early"},
		"no archive":       {file: pack(t, tar.Header{Name: "a/other.yaml", Typeflag: tar.TypeReg}), err: "no index.yaml"},
		"no gzip":          {file: "archive_test.go", err: "not a .tar.gz"},
		"nothing":          {file: "testdata/missing", err: "no such file"},
		"a device file":    {file: "/dev/zero", err: "neither a folder nor a file"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := archive.Read(c.file)
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				return
			}
			assert.NilError(t, err)
			if got := asJSON(t, f.Unseen); !strings.Contains(got, c.unseen) || len(f.Nodes) > 0 {
				t.Errorf("unseen: %s, want %q", got, c.unseen)
			}
		})
	}
}

func TestLinksInAFolderAreNotFollowed(t *testing.T) {
	dest := destinations(t)[0]
	write(t, dest, archive.MaxSize, secretive(), nil)
	outside := filepath.Join(t.TempDir(), "nodes.yaml")
	assert.NilError(t, os.Rename(filepath.Join(dest, "nodes.yaml"), outside))
	assert.NilError(t, os.Symlink(outside, filepath.Join(dest, "nodes.yaml")))
	assert.NilError(t, os.WriteFile(filepath.Join(dest, "pods.yaml"), []byte("items:\n- kind: Pod\n  spec: [\n"), 0o600))
	f, err := archive.Read(dest)
	assert.NilError(t, err)
	got := asJSON(t, f.Unseen)
	if len(f.Nodes) > 0 || !strings.Contains(got, "links are not followed") || !strings.Contains(got, "it is damaged") || len(f.DaemonSets) != 1 {
		t.Errorf("read %d nodes; unseen: %s", len(f.Nodes), got)
	}
}

// BenchmarkArchive writes and reads an archive of 5,000 nodes.
func BenchmarkArchive(b *testing.B) {
	f := crowd(5000)
	for i := range f.Nodes {
		for j := range 60 {
			f.Nodes[i].Labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-cpuid.FEATURE%d", j)] = "true"
		}
	}
	for b.Loop() {
		dest := filepath.Join(b.TempDir(), "a.tar.gz")
		w, err := archive.Create(dest, taken(), archive.MaxSize)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Facts(f); err != nil {
			b.Fatal(err)
		}
		_, size, err := w.Commit()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(size), "bytes")
		start := time.Now()
		if _, err := archive.Read(dest); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s/read")
	}
}
