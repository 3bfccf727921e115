//go:build e2e

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"outrigger.dev/test/e2e/stack"
)

// deletion is something that somebody deletes by mistake.
type deletion struct {
	name string
	// delete deletes it, and restore does what the docs say.
	delete, restore func(t *testing.T)
	// told is in the condition Ready. It is empty if no orchestrator is left that could report anything.
	told string
	// working says that the node offers its GPUs before the restoration.
	working bool
	// warning is the reason of the only Warning.
	warning string
	// gradual says that the deletion takes a while. A node that lost its GPUs for 10 s is told before it has ended.
	gradual bool
}

func deletions(helm *stack.Helm) []deletion {
	upgrade := func(t *testing.T) {
		if err := helm.Install(t.Context(), stack.Umbrella, map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	return []deletion{
		{
			name: "the Node", delete: func(t *testing.T) { kubectl(t, "delete", "node", gpuNode()) },
			restore: func(t *testing.T) {
				// A kubelet registers its Node when it starts.
				if err := shared.Restart(t.Context(), "kubelet", gpuNode()); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the kubelet has registered the Node", func() bool { return shared.MarkGPUNodes(t.Context()) == nil })
				kubectl(t, "label", "node", gpuNode(), "--overwrite", poolGPU+"=true")
			},
			told: "no GPU node found", warning: "NoGPUNodes",
		},
		{
			name: "the CRD", delete: func(t *testing.T) {
				kubectl(t, "delete", "crd", "clusterpolicies.outrigger.dev", "--wait=false")
			}, restore: upgrade, told: "somebody has deleted the definition", working: true, warning: "ValuesRefused",
		},
		{
			name: "the namespace of the agents", delete: func(t *testing.T) { kubectl(t, "delete", "namespace", stack.Namespace) },
			restore: upgrade, told: "run helm upgrade", warning: "StageFailed", gradual: true,
		},
		{
			name: "the namespace of the orchestrator", delete: func(t *testing.T) { kubectl(t, "delete", "namespace", stack.OperatorNamespace) },
			restore: upgrade, working: true,
		},
	}
}

// deletionsAreRestored deletes what nobody should delete, and restores it as the docs say.
func deletionsAreRestored(t *testing.T, helm *stack.Helm) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DELETED\tTOLD AFTER\tRESTORED AFTER\tWARNINGS\tMESSAGE")
	for _, tc := range deletions(helm) {
		restored := t.Run(tc.name, func(t *testing.T) {
			calm(t)
			before, began := policyEvents(t), time.Now()
			defer func() {
				if t.Failed() {
					describeOrchestrator(t)
				}
			}()
			tc.delete(t)
			message := "–"
			if tc.told != "" {
				eventually(t, "the status has "+tc.told, func() bool {
					message = readPolicy(t).Condition("Ready").Message
					return strings.Contains(message, tc.told)
				})
			}
			told := time.Since(began)
			if tc.working {
				allocatable(t, gpus, limit)
			}
			began = time.Now()
			tc.restore(t)
			calm(t)
			allocatable(t, gpus, limit)
			warnings := newEvents(t, before, "Warning")
			if tc.gradual && len(warnings) > 1 && strings.HasPrefix(warnings[0], "Warning Degraded: 0 of 1 GPU node ready") {
				warnings = warnings[1:]
			}
			fmt.Fprintf(w, "%s\t%.0f s\t%.0f s\t%q\t%s\n", tc.name, told.Seconds(), time.Since(began).Seconds(), warnings, message)
			if tc.warning == "" && len(warnings) > 0 || tc.warning != "" && (len(warnings) != 1 || !strings.HasPrefix(warnings[0], "Warning "+tc.warning+":")) {
				t.Errorf("the Warnings are %q, want one %s", warnings, tc.warning)
			}
		})
		if !restored {
			t.Fatal("the next deletions need a cluster that works")
		}
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
	t.Log("\n" + table.String())
}
