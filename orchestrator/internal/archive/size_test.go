package archive_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/archive"
	"outrigger.dev/orchestrator/internal/facts"
)

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
	const nodes, limit = 250, 1_150_000
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
