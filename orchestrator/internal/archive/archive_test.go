package archive_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
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
