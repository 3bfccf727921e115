package read_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/definition"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
)

// unseen returns the parts that were not seen, with the reasons, in lines.
func unseen(f facts.Facts) string {
	var lines []string
	for _, u := range f.Unseen {
		lines = append(lines, u.What+": "+u.Why)
	}
	return strings.Join(lines, "\n")
}

// asked returns the pods with an answer.
func asked(f facts.Facts) (pods []string) {
	for _, a := range f.Answers {
		pods = append(pods, a.Namespace+"/"+a.Pod)
	}
	return slices.Compact(pods)
}

// TestOnlyAgentsAreAsked has pods of a tenant with all labels of an agent: alone, with an owner that does not exist, and of the
// tenant's DaemonSet. A ClusterPolicy says that DaemonSets of the tenant's namespace are not agents.
func TestOnlyAgentsAreAsked(t *testing.T) {
	r := newRig(t)
	r.loader("team", "alone")
	r.loader("team", "forged", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "nvidia-driver-loader", UID: "0", Controller: new(true)})
	for _, target := range []facts.Target{{}, {Node: node}} {
		assert.DeepEqual(t, asked(r.read(r.Client, target)), []string{ns + "/loader-1"})
	}
	labels := map[string]string{"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/component": facts.DriverLoader}
	r.CreateTyped("apps/v1", "DaemonSet", &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fake"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{NodeSelector: map[string]string{"none": "none"}, Containers: []corev1.Container{{Name: "a", Image: "example.com/a:1"}}},
		}},
	})
	r.loader("team", "owned", r.owner("team", "fake"))
	assert.NilError(t, definition.Apply(t.Context(), r.Client, slog.New(slog.DiscardHandler)))
	ref := cluster.PolicyRef("gpus")
	policy := ref.Object()
	policy.Object["spec"] = map[string]any{}
	r.Create(policy)
	r.Patch(ref, "status", map[string]any{"status": map[string]any{"gpuNodes": int64(1), "readyNodes": int64(0), "inventory": []any{
		map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "namespace": ns, "name": "nvidia-driver-loader"},
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "team", "name": "extra"},
	}}})
	for _, target := range []facts.Target{{}, {Node: node}} {
		assert.DeepEqual(t, asked(r.read(r.Client, target)), []string{ns + "/loader-1"})
	}
}

// hangs is a kubelet that accepts commands, and answers none.
func hangs(first func()) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		first()
		<-q.Context().Done()
	})
}

// TestAKubeletThatHangs has facts without answers: all objects are there, and say the cause as far as they know it.
func TestAKubeletThatHangs(t *testing.T) {
	r := newRigWith(t, hangs(func() {}))
	for name, do := range map[string]func(context.Context, read.Config) (facts.Facts, error){"doctor": read.Read, "must-gather": read.Everything} {
		t.Run(name, func(t *testing.T) {
			f, err := do(t.Context(), read.Config{Client: r.Client, Ask: true, AskLimit: time.Second / 4})
			assert.NilError(t, err)
			if got := first(f, facts.Target{}); got != cause.DriverNotFound || !strings.Contains(unseen(f), "answers of agents on n1: the agents, or the kubelet, did not answer in time") {
				t.Errorf("first cause %s, unseen:\n%s", got, unseen(f))
			}
		})
	}
}

// expiring is a context whose deadline comes when a test says so.
type expiring struct {
	context.Context //nolint:containedctx // it is a context
	done            chan struct{}
	once            sync.Once
}

func (e *expiring) expire()               { e.once.Do(func() { close(e.done) }) }
func (e *expiring) Done() <-chan struct{} { return e.done }
func (e *expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestTheDeadline has a deadline during the first answer: the facts until then stay.
func TestTheDeadline(t *testing.T) {
	ctx := &expiring{Context: t.Context(), done: make(chan struct{})}
	r := newRigWith(t, hangs(ctx.expire))
	f, err := read.Read(ctx, read.Config{Client: r.Client, Target: facts.Target{Node: node}, Ask: true})
	assert.NilError(t, err)
	if got := first(f, facts.Target{Node: node}); got == "" || len(f.Nodes) != 1 || len(f.Pods) != 1 || !strings.Contains(unseen(f), "answers of agents on n1") {
		t.Errorf("first cause %s, unseen:\n%s", got, unseen(f))
	}
}

// TestANodeThatIsNotReady is not asked: its kubelet does not answer.
func TestANodeThatIsNotReady(t *testing.T) {
	r := newRigWith(t, hangs(func() { t.Error("the node is asked") }))
	r.Patch(model.Ref{APIVersion: "v1", Kind: "Node", Name: node}, "status", map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"},
	}}})
	f := r.read(r.Client, facts.Target{Node: node})
	if got := unseen(f); got != "answers of agents on n1: a node that is not Ready runs no command" {
		t.Errorf("unseen:\n%s", got)
	}
}

// TestAnAgentWithoutARight has an agent that lacks a right itself: it has answered.
func TestAnAgentWithoutARight(t *testing.T) {
	const said = `nodes "n1" is forbidden: User "system:serviceaccount:gpu:driver-loader" cannot get resource "nodes"`
	for name, prefix := range map[string]string{"an error of the API server": "", "a text of SPDY": "unable to upgrade connection: "} {
		t.Run(name, func(t *testing.T) {
			r := newRigWith(t, kubelet(func(fail io.Writer) { fmt.Fprint(fail, prefix+said) }))
			f := r.read(r.Client, facts.Target{Node: node})
			if len(f.Answers) != 2 || len(f.Unseen) > 0 || !strings.Contains(f.Answers[0].Error, said) {
				t.Errorf("%d answers, unseen:\n%s", len(f.Answers), unseen(f))
			}
		})
	}
}

// says is a program that fails.
type says func(fail io.Writer)

func (s says) ExecInContainer(_ context.Context, _, _, _ string, _ []string, _ io.Reader, _, fail io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	s(fail)
	return errNotReady
}

func kubelet(s says) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { serve(w, q, s) })
}

// TestACallerWithoutTheRight may read all objects, and run no commands.
func TestACallerWithoutTheRight(t *testing.T) {
	r := newRig(t)
	rc := r.As("reader", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"list"}})
	client, err := cluster.New(rc)
	assert.NilError(t, err)
	agenttest.Poll(t, "the rights of the user", func() bool { return len(r.read(client, facts.Target{}).Nodes) == 1 })
	f := r.read(client, facts.Target{})
	if got := unseen(f); len(f.Unseen) != 1 || !strings.HasPrefix(got, "answers of agents in the namespace "+ns+": ") || !strings.Contains(got, `cannot create resource "pods/exec"`) && !strings.Contains(got, `cannot get resource "pods/exec"`) {
		t.Errorf("answers %+v, unseen:\n%s", f.Answers, got)
	}
}
