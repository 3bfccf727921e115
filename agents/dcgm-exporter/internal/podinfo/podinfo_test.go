package podinfo_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/dcgm-exporter/internal/podinfo"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pod is a Pod object with fields that nobody needs.
const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"train-0","namespace":"ml","uid":"uid-1","resourceVersion":"4",
	"labels":{"app.kubernetes.io/name":"train","hash":"x"},"annotations":{"large":"` + "yyyy" + `"},"managedFields":[{"manager":"kubelet"}]},
	"spec":{"nodeName":"node1","containers":[{"name":"main"}]},
	"status":{"phase":"Running","containerStatuses":[{"name":"main","containerID":"containerd://aaa"},{"name":"late","containerID":""}],
		"initContainerStatuses":[{"name":"init","containerID":"cri-o://bbb"}],"ephemeralContainerStatuses":[{"name":"debug","containerID":"docker://ccc"}]}}`

// static is the Pod object of a static pod.
const static = `{"metadata":{"name":"etcd-node1","namespace":"kube-system","uid":"uid-2","resourceVersion":"5",
	"annotations":{"kubernetes.io/config.mirror":"0123456789abcdef0123456789abcdef"}},"status":{"phase":"Running"}}`

// server lists the pods, and then sends events as they come.
type server struct {
	pods   string
	events chan string
	// seen receives the query and the Accept header of each request.
	seen chan [2]string
	end  chan struct{}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/pods" {
		http.NotFound(w, r)
		return
	}
	s.seen <- [2]string{r.URL.Query().Get("fieldSelector"), r.Header.Get("Accept")}
	if !r.URL.Query().Has("watch") {
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"10"},"items":[`+s.pods+`]}`)
		return
	}
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case e := <-s.events:
			_, _ = io.WriteString(w, e)
			_ = http.NewResponseController(w).Flush()
		case <-s.end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// follow starts a server and a Pods that follows it until the test ends.
func follow(t *testing.T, s *server, cfg podinfo.Config) *podinfo.Pods {
	t.Helper()
	s.events, s.seen, s.end = make(chan string), make(chan [2]string, 8), make(chan struct{})
	api := httptest.NewUnstartedServer(s)
	api.EnableHTTP2 = true
	api.StartTLS()
	t.Cleanup(api.Close)
	t.Cleanup(func() { close(s.end) })
	client, err := kube.New(kube.Config{Server: api.URL, Dir: agenttest.Account(t, api), Node: "node1", Agent: "dcgm-exporter", Log: slog.New(slog.DiscardHandler)})
	assert.NilError(t, err)
	cfg.Client, cfg.Node = client, "node1"
	p := podinfo.New(cfg)
	if _, ok := p.Pod("ml", "train-0"); ok || p.Known() {
		t.Error("pods are known before the API server has answered")
	}
	agenttest.Run(t, func(ctx context.Context) error {
		p.Run(ctx)
		return nil
	})
	return p
}

func event(kind, object string) string {
	return `{"type":"` + kind + `","object":` + object + "}\n"
}

func TestPodsAreFollowed(t *testing.T) {
	t.Parallel()
	s := &server{pods: pod + "," + static}
	allow, err := podinfo.ParseAllow([]string{"^app"})
	assert.NilError(t, err)
	p := follow(t, s, podinfo.Config{Rules: podinfo.Rules{Allow: allow}})
	agenttest.Poll(t, "the list", p.Known)
	if seen := <-s.seen; seen[0] != "spec.nodeName=node1" || strings.Contains(seen[1], "PartialObjectMetadata") {
		t.Errorf("request %q", seen)
	}
	want := podinfo.Pod{
		Namespace: "ml", Name: "train-0", UID: "uid-1", Labels: []podinfo.Label{{Name: "app_kubernetes_io_name", Value: "train"}},
		Containers: map[string]string{"aaa": "main", "bbb": "init", "ccc": "debug"},
	}
	byName, _ := p.Pod("ml", "train-0")
	byUID, _ := p.ByUID("uid-1")
	if d := cmp.Diff([]podinfo.Pod{want, want}, []podinfo.Pod{byName, byUID}); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
	for _, uid := range []string{"uid-2", "0123456789abcdef0123456789abcdef"} {
		if got, _ := p.ByUID(uid); got.Name != "etcd-node1" || got.UID != "uid-2" {
			t.Errorf("static pod by %s: %+v", uid, got)
		}
	}
	if _, ok := p.ByUID(""); ok {
		t.Error("there is a pod without a uid")
	}

	s.events <- event("MODIFIED", strings.ReplaceAll(pod, "Running", "Succeeded"))
	agenttest.Poll(t, "the end of the pod", func() bool { return p.Ended("ml", "train-0") })
	s.events <- event("DELETED", pod)
	agenttest.Poll(t, "the deletion", func() bool { _, ok := p.Pod("ml", "train-0"); return !ok })
	if _, ok := p.ByUID("uid-1"); ok || p.Ended("ml", "train-0") {
		t.Error("the deleted pod is known by its uid")
	}
	if _, ok := p.Pod("kube-system", "etcd-node1"); !ok {
		t.Error("the other pod is gone")
	}
}

func TestNoPodsAreKnownWithoutTheAPI(t *testing.T) {
	var p *podinfo.Pods
	_, byName := p.Pod("ml", "train-0")
	_, byUID := p.ByUID("uid-1")
	if byName || byUID || p.Known() || p.Ended("ml", "train-0") {
		t.Error("a nil Pods knows pods")
	}
}

func TestLabelsOfOnePodAreBoundedInMemory(t *testing.T) {
	t.Parallel()
	var labels strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&labels, `"label-%04d":"%s",`, i, strings.Repeat("x", 22)) // 32 bytes each
	}
	s := &server{pods: strings.Replace(pod, `"labels":{`, `"labels":{`+labels.String(), 1)}
	p := follow(t, s, podinfo.Config{})
	agenttest.Poll(t, "the list", p.Known)
	got, _ := p.Pod("ml", "train-0")
	// app.kubernetes.io/name and hash are before label-.
	if len(got.Labels)+got.Omitted != 8002 || len(got.Labels) < 2000 || len(got.Labels) > 2050 || got.Labels[0].Value != "train" || got.Labels[1].Value != "x" {
		t.Errorf("%d labels are kept and %d omitted, and the first are %v", len(got.Labels), got.Omitted, got.Labels[:2])
	}
}
