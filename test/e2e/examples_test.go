//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// restricted is the label of a namespace that rejects pods with more rights than the Pod Security Standard restricted.
const restricted = "pod-security.kubernetes.io/enforce"

// gpuShared is the resource of the shared config in values.yaml of the examples.
const gpuShared = "nvidia.com/gpu.shared"

// The commands of stand-ins that have a shell. server answers like the notebook if it has one GPU, the token and a home
// that it can write. idle only has a GPU.
const (
	oneGPU = `[ "$(ls -d /dev/nvidia[0-9]* | wc -l)" = 1 ] || exit 1; trap 'exit 0' TERM; `
	server = oneGPU + `[ "$JUPYTER_TOKEN" = example ] && echo notebook >/home/jovyan/api && { httpd -f -p 8888 -h /home/jovyan & wait; }`
	idle   = oneGPU + `sleep 3600 & wait`
)

// exampleFile returns the path of a file in docs/examples.
func exampleFile(t *testing.T, name string) string {
	t.Helper()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "docs/examples", name)
}

// example returns a manifest of docs/examples. The nodes cannot pull the images of its containers, so an image of this
// repository replaces them. Without a command, it is vectoradd.
func example(t *testing.T, name, command string) string {
	t.Helper()
	text, err := os.ReadFile(exampleFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	image, err := shared.VectorAddImage()
	if err != nil {
		t.Fatal(err)
	}
	standIn := map[string]any{"image": image}
	if command != "" {
		standIn = map[string]any{"image": cluster.BusyboxImage, "command": []any{"sh", "-c", command}}
	}
	var documents []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		path := []string{"spec", "template", "spec", "containers"}
		containers, found, err := unstructured.NestedSlice(object, path...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if found {
			for _, c := range containers {
				container := c.(map[string]any)
				delete(container, "command")
				delete(container, "args")
				maps.Copy(container, standIn)
			}
			if err := unstructured.SetNestedSlice(object, containers, path...); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		b, err := yaml.Marshal(object)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		documents = append(documents, string(b))
	}
	return strings.Join(documents, "\n---\n")
}

// applyExample applies a manifest of docs/examples with stand-ins, to a namespace that rejects pods with more rights than
// they need. At the end of the test it deletes the objects, and waits until their pods are gone.
func applyExample(t *testing.T, name, command string) {
	t.Helper()
	manifest := example(t, name, command)
	kubectl(t, "label", "namespace", "default", "--overwrite", restricted+"=restricted")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			for _, args := range [][]string{{"get", "pods,jobs,pvc,pv", "-o", "wide"}, {"describe", "pods"}, {"get", "events"}} {
				out, err := shared.Kubectl(ctx, args...)
				t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
		cmd := shared.KubectlCommand(ctx, "delete", "-f", "-", "--ignore-not-found", "--cascade=foreground", "--wait")
		cmd.Stdin = strings.NewReader(manifest)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("delete %s: %v: %s", name, err, out)
		}
		kubectlCleanup(t, "label", "namespace", "default", restricted+"-")
	})
	if err := shared.Apply(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
}

// jobComputes waits until the Job of an example has run vectoradd.
func jobComputes(t *testing.T, job string) {
	t.Helper()
	kubectl(t, "wait", "job/"+job, "--for=condition=Complete", "--timeout", limit.String())
	if log := kubectl(t, "logs", "job/"+job); !strings.Contains(log, "Test PASSED") {
		t.Errorf("the log of job %s lacks that the test passed:\n%s", job, log)
	}
}

// pluginOfExamples installs the device plugin with the values of the examples. In the chart of the agent, the values for all
// agents are at the top.
func pluginOfExamples(t *testing.T) {
	t.Helper()
	if err := shared.Uninstall(t.Context(), "device-plugin"); err != nil {
		t.Fatal(err)
	}
	release, err := shared.DevicePlugin()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(exampleFile(t, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values struct{ Global map[string]any }
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.Marshal(values.Global); err != nil {
		t.Fatal(err)
	}
	release.File = filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(release.File, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := shared.Install(t.Context(), release); err != nil {
		t.Fatal(err)
	}
}

// examplesRun applies the manifests of docs/examples. It needs pluginOfExamples and a MIG manager.
func examplesRun(t *testing.T) {
	t.Run("a notebook and a training job", notebookAndTrainingRun)
	t.Run("time slicing", func(t *testing.T) {
		kubectl(t, "label", "node", gpuNode(), configLabel+"=shared")
		t.Cleanup(func() { kubectlCleanup(t, "label", "node", gpuNode(), configLabel+"-") })
		advertised(t, gpuShared, 4*gpus, limit)
		applyExample(t, "time-slicing.yaml", idle)
		// One pod more than there are GPUs: two of them share one.
		kubectl(t, "scale", "deployment/time-slicing", "--replicas="+strconv.Itoa(gpus+1))
		kubectl(t, "rollout", "status", "deployment/time-slicing", "--timeout", limit.String())
	})
	allocatable(t, gpus, limit)
	t.Run("MIG", func(t *testing.T) {
		askForLayout(t, "all-1g.10gb")
		advertised(t, mig1g, 7*gpus, limit)
		layoutIs(t, "success")
		applyExample(t, "mig.yaml", "")
		jobComputes(t, "mig")
	})
	askForLayout(t, "all-disabled")
	layoutIs(t, "success")
	allocatable(t, gpus, limit)
}

// volume is a PersistentVolume with a folder of the GPU node, in place of a StorageClass.
const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: example-%[1]d}
spec:
  capacity: {storage: 100Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: %[2]s/%[1]d}
---
`

// notebookAndTrainingRun runs both at the same time.
func notebookAndTrainingRun(t *testing.T) {
	const folder = "/var/lib/examples"
	t.Cleanup(func() {
		kubectlCleanup(t, "delete", "--ignore-not-found", "--wait", "secret/notebook", "pvc/home-notebook-0", "pv/example-0", "pv/example-1")
		if _, err := shared.Exec(context.WithoutCancel(t.Context()), gpuNode(), "rm", "-rf", folder); err != nil {
			t.Error(err)
		}
	})
	// Nobody changes the owner of such a folder, so each user can write it.
	onGPUNode(t, fmt.Sprintf("mkdir -p -m 0777 %[1]s/0 %[1]s/1", folder))
	if err := shared.Apply(t.Context(), fmt.Sprintf(volume, 0, folder)+fmt.Sprintf(volume, 1, folder)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "create", "secret", "generic", "notebook", "--from-literal=token=example")
	applyExample(t, "notebook.yaml", server)
	applyExample(t, "training.yaml", "")
	jobComputes(t, "training")
	kubectl(t, "rollout", "status", "statefulset/notebook", "--timeout", limit.String())
	address := kubectl(t, "get", "service/notebook", "-o", "jsonpath={.spec.clusterIP}")
	eventually(t, "the Service of the notebook answers", func() bool {
		out, err := shared.Exec(t.Context(), gpuNode(), "busybox", "wget", "-q", "-O", "-", "http://"+address+":8888/api")
		return err == nil && strings.TrimSpace(out) == "notebook"
	})
}
