package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/app"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

// Two installations in two namespaces would undo each other's objects.
func TestOneOrchestratorOfAClusterWorks(t *testing.T) {
	w := newWorld(t)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	w.until("is there", model.Ref{APIVersion: "v1", Kind: "Namespace", Name: "default"}, exists)
	run := func(namespace string) (log *agenttest.Lines, stop func()) {
		log = agenttest.NewLines()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() {
			ended <- agent.Exec(ctx, app.App(), []string{"orchestrator", "run", "--kubeconfig", w.config, "--listen=", "--namespace", namespace}, io.Discard, log)
		}()
		return log, func() { cancel(); <-ended }
	}
	holder := func(o *unstructured.Unstructured) string {
		if o == nil {
			return ""
		}
		id, _, _ := unstructured.NestedString(o.Object, "spec", "holderIdentity")
		return id
	}
	lease := model.Ref{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: "default", Name: "outrigger"}
	_, stopFirst := run("first")
	defer stopFirst()
	w.until("is held", lease, func(o *unstructured.Unstructured) bool { return holder(o) != "" })
	second, stopSecond := run("second")
	defer stopSecond()
	if err := second.Wait(agenttest.Deadline(t), fmt.Sprintf("holder=%s", holder(w.get(lease)))); err != nil {
		t.Error(err)
	}
}
