package revalidate

import (
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/validation"
)

const check = "nvidia-driver-validation"

func pod(node, revision string, phase corev1.PodPhase, message string) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p-" + node, Namespace: "gpu", Labels: map[string]string{validation.LabelCheck: check, validation.LabelRevision: revision}},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
	if phase == corev1.PodFailed {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: message}}}}
	}
	return p
}

func TestTheResultOfARepetition(t *testing.T) {
	const old, now = "rev1", "rev2"
	for name, tc := range map[string]struct {
		status model.ValidationStatus
		pods   []corev1.Pod
		ended  bool
		state  string
		failed int
		// want are the nodes of pods with their states.
		want map[string]string
	}{
		"the orchestrator has not seen the request": {
			model.ValidationStatus{State: validation.Passed, Revision: old, Passed: 1},
			[]corev1.Pod{pod("n1", old, corev1.PodSucceeded, "")},
			false, validation.Running, 0,
			map[string]string{},
		},
		"pods run": {
			model.ValidationStatus{State: validation.Running, Passed: 1},
			[]corev1.Pod{pod("n2", now, corev1.PodRunning, ""), pod("n1", now, corev1.PodSucceeded, "")},
			false, validation.Running, 0,
			map[string]string{"n1": validation.Passed, "n2": validation.Running},
		},
		"a node fails": {
			model.ValidationStatus{State: validation.Passed, Revision: now, Passed: 1, Failed: 1},
			[]corev1.Pod{pod("n1", now, corev1.PodSucceeded, ""), pod("n2", now, corev1.PodFailed, "wrong sum")},
			true, validation.Passed, 1,
			map[string]string{"n1": validation.Passed, "n2": validation.Failed + " Error: wrong sum"},
		},
		"a failure without a pod counts": {
			model.ValidationStatus{State: validation.Failed, Revision: now}, nil, true, validation.Failed, 1, map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.status.Name = check
			policy := model.Policy{Name: "p", Status: model.Status{Stages: []model.StageStatus{{Name: "container-toolkit", Validations: []model.ValidationStatus{tc.status}}}}}
			result, ended := derive(policy, tc.pods, map[string]string{check: old})
			got := map[string]string{}
			for _, p := range result.Validations[0].Pods {
				got[p.Node] = p.State
				if p.Message != "" {
					got[p.Node] += " " + p.Message
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || ended != tc.ended || result.Validations[0].State != tc.state || result.Failed() != tc.failed {
				t.Errorf("ended %t, state %s, %d failed (-want +got):\n%s", ended, result.Validations[0].State, result.Failed(), diff)
			}
		})
	}
}

func TestTheLogOfVectoradd(t *testing.T) {
	const log = "GPU 0: NVIDIA L4 (UUID: GPU-a)\nTest PASSED\nDone\nGPU 1: NVIDIA L4 (UUID: GPU-b)\nTest PASSED\nDone\n" +
		"[Copies of 32 MiB, in GB/s]\nGPU 0: host to device 1.0, device to host 2.0\nGPU 0 to GPU 1: 3.0 (peer access)\n"
	gpus, copies := readLog(log)
	if diff := cmp.Diff([]string{"GPU 0: host to device 1.0, device to host 2.0", "GPU 0 to GPU 1: 3.0 (peer access)"}, copies); diff != "" || gpus != 2 {
		t.Errorf("%d GPUs (-want +got):\n%s", gpus, diff)
	}
	if gpus, copies := readLog("Test PASSED\nDone\n"); gpus != 1 || copies != nil {
		t.Errorf("%d GPUs, copies %v", gpus, copies)
	}
}

// Everybody can write a log that looks like a log of vectoradd.
func TestAHostileLog(t *testing.T) {
	_, copies := readLog("[Copies ]\nGPU \x1b]52;c;ZXZpbA==\a\x1b[2J\u009b31m\rGPU 0: 1.0\nGPU " + strings.Repeat("x", 1<<16) + "\n")
	for _, line := range copies {
		if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 || len(line) > maxLine {
			t.Errorf("%d bytes: %q", len(line), line[:min(len(line), 80)])
		}
	}
	if len(copies) != 2 {
		t.Errorf("%d lines", len(copies))
	}
}
