//go:build e2e

package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// ask runs "kubectl outrigger", and returns its output and its exit code.
func ask(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return inKubectl(t, append([]string{"outrigger"}, args...)...)
}

// inKubectl runs kubectl with the plugin in PATH. kubectl passes no flags that stand before the name of a plugin.
func inKubectl(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := shared.KubectlCommand(t.Context(), args...)
	cmd.Args = slices.Concat(cmd.Args[:1], args)
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Join([]string{filepath.Join(root, "bin"), filepath.Join(root, "orchestrator", "kubectl-outrigger"), os.Getenv("PATH")}, ":")
	cmd.Env = append(os.Environ(), "PATH="+path, "KUBECONFIG="+shared.Kubeconfig(), "HOME="+t.TempDir())
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	exit := &exec.ExitError{}
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// diagnosis is the part of the output of "doctor -o json" that tests read.
type diagnosis struct {
	Verdict  string
	Findings []finding
}

// finding is a finding of doctor.
type finding struct {
	Code, Severity, Subject, Evidence, Fix string
	Examples                               []string
}

// codes returns the codes of the findings, the first one first.
func (d diagnosis) codes() (codes []string) {
	for _, f := range d.Findings {
		codes = append(codes, f.Code)
	}
	return codes
}

// diagnose runs doctor.
func diagnose(t *testing.T, args ...string) diagnosis {
	t.Helper()
	out, errs, code := ask(t, append([]string{"doctor", "-o", "json"}, args...)...)
	var d diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil || code == 1 || code == 2 {
		t.Fatalf("doctor %v: exit code %d: %v\n%s%s", args, code, err, out, errs)
	}
	return d
}

// namesFirst checks that doctor names one of the codes first, for the cluster and for the node, with its fix. A node that is opted out
// is no finding about the cluster.
func namesFirst(t *testing.T, codes string) {
	t.Helper()
	targets := [][]string{nil, {gpuNode()}}
	if codes == "NodeOptedOut" {
		targets = targets[1:]
	}
	for _, args := range targets {
		var d diagnosis
		eventually(t, fmt.Sprintf("doctor %v names %s first", args, codes), func() bool {
			d = diagnose(t, args...)
			return len(d.Findings) > 0 && slices.Contains(strings.Fields(codes), d.Findings[0].Code)
		})
		if d.Findings[0].Fix == "" || d.Findings[0].Evidence == "" {
			t.Errorf("doctor %v says no evidence or no fix: %+v", args, d.Findings[0])
		}
	}
}

// thePluginShowsTheCluster uses each command that reads, on a cluster that works.
func thePluginShowsTheCluster(t *testing.T) {
	calm(t)
	if d := diagnose(t); len(d.Findings) > 0 {
		t.Errorf("doctor finds something on a cluster that works: %+v", d)
	}
	if out, errs, code := inKubectl(t, "__complete", "outrigger", "val"); code != 0 || !strings.HasPrefix(out, "validate\n:4") {
		t.Errorf("kubectl completes val to %q: exit code %d: %s", out, code, errs)
	}
	for command, want := range map[string][]string{
		"status": {"device-plugin", "Ready", "1 of 1 GPU node"},
		"top":    {gpuNode(), "H100"},
	} {
		out, errs, code := ask(t, command)
		t.Logf("kubectl outrigger %s\n%s", command, out)
		for _, text := range want {
			if code != 0 || !strings.Contains(out, text) {
				t.Errorf("%s: exit code %d, the output lacks %q:\n%s%s", command, code, text, out, errs)
			}
		}
		var any map[string]any
		out, errs, code = ask(t, command, "-o", "json")
		if err := json.Unmarshal([]byte(out), &any); err != nil || code != 0 {
			t.Errorf("%s -o json: exit code %d: %v\n%s%s", command, code, err, out, errs)
		}
	}
}

// validationsOnRequest proves all GPUs of a node, with copies between them.
func validationsOnRequest(t *testing.T) {
	out, errs, code := ask(t, "validate", gpuNode(), "--all-gpus", "--copies", "-o", "json")
	var result struct {
		Validations []struct {
			Name, State string
			Pods        []struct {
				Node, State string
				GPUs        int
				Copies      []string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || len(result.Validations) != 2 {
		t.Fatalf("exit code %d: %v\n%s%s", code, err, out, errs)
	}
	for _, v := range result.Validations {
		want := 1 // the device plugin gives a pod one GPU
		if v.Name == "nvidia-driver-validation" {
			want = gpus
		}
		if v.State != "Passed" || len(v.Pods) != 1 || v.Pods[0].Node != gpuNode() || v.Pods[0].GPUs != want || len(v.Pods[0].Copies) != want*want {
			t.Errorf("%+v, want %d GPUs that have passed, and copies between the host and each GPU, and between GPUs", v, want)
		}
	}
	annotations := kubectl(t, "get", policy, "-o", "jsonpath={.metadata.annotations}")
	if strings.Contains(annotations, "validate-on") || strings.Contains(annotations, "validate-with") {
		t.Errorf("the request is still there: %s", annotations)
	}
	if _, errs, code := ask(t, "validate", "no-such-node", "also-missing"); code != 1 || !strings.Contains(errs, "no-such-node") || !strings.Contains(errs, "also-missing") {
		t.Errorf("nodes that do not exist: exit code %d: %s", code, errs)
	}
	policyIsReady(t)
}

// unlucky is a pod that gets no GPU, and the code that doctor has to name first.
type unlucky struct {
	name, code string
	// resource and count are the request. Without a resource, the pod requests nothing.
	resource string
	count    int
	// spec are more fields of the pod, as YAML in one line each.
	spec []string
	// evidence is in the evidence.
	evidence string
}

// manifest returns the pod.
func (u unlucky) manifest() string {
	limits := ""
	if u.resource != "" {
		limits = fmt.Sprintf("%s: %d", u.resource, u.count)
	}
	env := ""
	if u.code == "GPUsHidden" {
		env = "{name: NVIDIA_VISIBLE_DEVICES, value: void}"
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  terminationGracePeriodSeconds: 0
  %s
  containers:
    - {name: main, image: %s, command: [sleep, "3600"], env: [%s], resources: {limits: {%s}}}
---`, u.name, unluckyNamespace, strings.Join(u.spec, "\n  "), cluster.BusyboxImage, env, limits)
}

const unluckyNamespace = "doctor-test"

// doctorExplainsPods makes pods that get no GPU, each for another reason.
func doctorExplainsPods(t *testing.T) {
	calm(t)
	allocatable(t, gpus, limit)
	kubectl(t, "create", "namespace", unluckyNamespace)
	t.Cleanup(func() {
		kubectlCleanup(t, "uncordon", gpuNode())
		kubectlCleanup(t, "taint", "node", gpuNode(), "example.com/team-")
		kubectlCleanup(t, "delete", "namespace", unluckyNamespace)
	})
	const gpu = "nvidia.com/gpu"
	expect := func(pods ...unlucky) {
		manifests := ""
		for _, u := range pods {
			manifests += u.manifest()
		}
		if err := shared.Apply(t.Context(), manifests); err != nil {
			t.Fatal(err)
		}
		for _, u := range pods {
			if u.code == "" {
				kubectl(t, "-n", unluckyNamespace, "wait", "--for=condition=Ready", "pod/"+u.name, "--timeout=4m")
			}
		}
		for _, u := range pods {
			var d diagnosis
			eventually(t, "doctor explains the pod "+u.name, func() bool {
				d = diagnose(t, unluckyNamespace+"/"+u.name)
				return len(d.Findings) == 0 && u.code == "" || len(d.Findings) > 0 && d.Findings[0].Code == u.code
			})
			if u.code != "" && (d.Findings[0].Fix == "" || !strings.Contains(d.Findings[0].Evidence, u.evidence)) {
				t.Errorf("%s: no fix, or the evidence lacks %q: %+v", u.name, u.evidence, d.Findings[0])
			}
		}
	}
	expect(
		unlucky{name: "typo", code: "ResourceUnknown", resource: "nvidia.com/gpus", count: 1, evidence: gpu},
		unlucky{name: "mig", code: "MIGProfileMissing", resource: "nvidia.com/mig-1g.10gb", count: 1},
		unlucky{name: "large", code: "RequestTooLarge", resource: gpu, count: gpus + 1},
		unlucky{name: "selector", code: "NodesNotSelected", resource: gpu, count: 1, spec: []string{"nodeSelector: {zone: nowhere}"}, evidence: "zone"},
		unlucky{name: "gated", code: "SchedulingGated", resource: gpu, count: 1, spec: []string{"schedulingGates: [{name: example.com/queue}]"}, evidence: "example.com/queue"},
		unlucky{name: "nothing", code: "NoGPURequested"},
		unlucky{name: "hidden", code: "GPUsHidden", resource: gpu, count: 1},
		unlucky{name: "lucky", resource: gpu, count: 1},
	)
	kubectl(t, "-n", unluckyNamespace, "delete", "pod", "--all", "--force")
	expect(unlucky{name: "holder", resource: gpu, count: gpus})
	expect(unlucky{name: "late", code: "GPUsExhausted", resource: gpu, count: 1, evidence: unluckyNamespace + "/holder"})
	kubectl(t, "-n", unluckyNamespace, "delete", "pod", "--all", "--force")
	kubectl(t, "cordon", gpuNode())
	expect(unlucky{name: "cordoned", code: "NodeCordoned", resource: gpu, count: 1, evidence: gpuNode()})
	kubectl(t, "uncordon", gpuNode())
	kubectl(t, "-n", unluckyNamespace, "delete", "pod", "--all", "--force")
	kubectl(t, "taint", "node", gpuNode(), "example.com/team=a:NoSchedule")
	expect(unlucky{name: "tainted", code: "TaintNotTolerated", resource: gpu, count: 1, evidence: "example.com/team"})
}

// anArchiveAnswersAsTheCluster writes an archive of a cluster with a fault, and compares the diagnosis from the archive with
// the diagnosis of the cluster.
func anArchiveAnswersAsTheCluster(t *testing.T) {
	const secret = "Zq3vSEEDw8"
	kubectl(t, "-n", stack.Namespace, "create", "secret", "generic", "seeded", "--from-literal=password="+secret)
	t.Cleanup(func() { kubectlCleanup(t, "-n", stack.Namespace, "delete", "secret", "seeded") })
	calm(t)
	patchPolicy(t, `{"spec":{"dcgmExporter":{"version":"26.11.0-missing","env":[{"name":"TOKEN","value":"`+secret+`"}]}}}`)
	defer func() {
		patchPolicy(t, `{"spec":{"dcgmExporter":{"version":null,"env":null}}}`)
		calm(t)
	}()
	eventually(t, "doctor names the image", func() bool { return slices.Contains(diagnose(t).codes(), "ImagePullBackOff") })
	dir := filepath.Join(t.TempDir(), "dump")
	out, errs, code := ask(t, "must-gather", "--dest", dir)
	if code != 0 {
		t.Fatalf("must-gather: exit code %d\n%s%s", code, out, errs)
	}
	t.Logf("must-gather\n%s%s", out, errs)
	found, _ := exec.CommandContext(t.Context(), "grep", "-r", "-l", secret, dir).Output()
	if len(found) > 0 {
		t.Errorf("the archive has a secret: %s", found)
	}
	for _, args := range [][]string{nil, {gpuNode()}} {
		live, archived := diagnose(t, args...), diagnose(t, append([]string{"--offline", dir}, args...)...)
		if !slices.Equal(live.codes(), archived.codes()) || live.Verdict != archived.Verdict {
			t.Errorf("doctor %v says %q %v about the cluster, and %q %v from the archive", args, live.Verdict, live.codes(), archived.Verdict, archived.codes())
		}
	}
}
