package health

import (
	"regexp"
	"testing"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

// placeholder is what a fix of the table has for a name.
var placeholder = regexp.MustCompile(`\b(NAMESPACE|POD|NODE)\b`)

// Each word of the kubelet or the scheduler gives a cause of the table, with names in its fix.
func TestPodCauses(t *testing.T) {
	pod := func(reason, phase string) model.Pod {
		return model.Pod{Namespace: "gpu-operator", Name: "agent-x", Node: "n1", Reason: reason, Phase: phase}
	}
	deleting, loops := pod("Completed", "Succeeded"), pod("", "Running")
	deleting.Deleting = true
	loops.Loops = time.Unix(61, 0)
	for want, pods := range map[cause.Code][]model.Pod{
		cause.ImagePullBackOff: {
			pod("ImagePullBackOff", "Pending"), pod("ErrImagePull", "Pending"), pod("RegistryUnavailable", "Pending"),
			pod("ImageInspectError", "Pending"), pod("SignatureValidationFailed", "Pending"),
		},
		cause.InvalidImageName:  {pod("InvalidImageName", "Pending")},
		cause.ErrImageNeverPull: {pod("ErrImageNeverPull", "Pending")},
		cause.CrashLoopBackOff: {
			pod("CrashLoopBackOff", "Running"), pod("Error", "Running"), pod("ContainerCannotRun", "Pending"),
			pod("StartError", "Pending"), pod("Completed", "Running"), loops,
		},
		cause.OOMKilled:                  {pod("OOMKilled", "Running")},
		cause.CreateContainerConfigError: {pod("CreateContainerConfigError", "Pending")},
		cause.CreateContainerError:       {pod("CreateContainerError", "Pending")},
		cause.RunContainerError:          {pod("RunContainerError", "Pending")},
		cause.CreatePodSandboxError:      {pod("CreatePodSandboxError", "Pending")},
		cause.Unschedulable:              {pod("Unschedulable", "Pending"), pod("SchedulerError", "Pending")},
		cause.Terminating:                {deleting},
		cause.PodFailed:                  {pod("", "Failed")},
		cause.ContainerCreating:          {pod("", "Pending"), pod("ContainerCreating", "Pending")},
		cause.NotReady:                   {pod("", "Running")},
		"PodInitializing":                {pod("PodInitializing", "Pending")},
		"Evicted":                        {pod("Evicted", "Failed")},
	} {
		for _, p := range pods {
			got, failed := New(nil, model.State{Now: time.Unix(1, 0), Nodes: []*model.Node{{Name: "n1"}}}).podTrouble(&p)
			if !failed {
				t.Errorf("%+v: a pod without a time has not failed", p)
			}
			if got.Code != want || got.Fix == "" || placeholder.MatchString(got.Fix) {
				t.Errorf("%+v: %+v, want %s", p, got, want)
			}
			if row := want.Row(); row.Section != "" && got.Severity != row.Severity {
				t.Errorf("%+v: %s, want %s", p, got.Severity, row.Severity)
			}
		}
	}
}
