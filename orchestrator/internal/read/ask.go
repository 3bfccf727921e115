package read

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/pkg/agent"
)

const (
	// askLimit is the time limit of a command in a container.
	askLimit = 10 * time.Second
	// askAllLimit is the time limit of all commands of a diagnosis. gatherLimit is the limit for an archive, of up to maxAsked nodes.
	askAllLimit = 15 * time.Second
	gatherLimit = 2 * time.Minute
	// askNodes is the number of nodes whose agents are asked at the same time, and askParallel the number of commands on a node.
	askNodes    = 10
	askParallel = 16
	// noAnswer is why answers are missing.
	noAnswer = "the agents, or the kubelet, did not answer in time"
	// maxAnswer is the maximum size of an answer, in bytes.
	maxAnswer = 1 << 20
)

// questions returns the commands for an agent, without the program.
func questions(of string) [][]string {
	switch of {
	case facts.DriverLoader:
		return [][]string{{"probe", "readyz"}, {"plan", "--output=json"}}
	case facts.DevicePlugin:
		return [][]string{{"probe", "readyz"}, {"explain", "--output=json"}}
	case facts.ContainerToolkit, facts.DRAPlugin, facts.MIGManager, facts.FeatureDiscovery:
		return [][]string{{"probe", "readyz"}}
	case facts.Exporter:
		return [][]string{{"processes"}}
	}
	return nil
}

// asking asks agents, and knows why agents were not asked or did not answer.
type asking struct {
	*reader

	// trusted has the DaemonSets whose pods are asked.
	trusted map[types.UID]bool

	mu sync.Mutex
	// denied has the error of each namespace in which the caller may not run commands.
	denied map[string]error
	// missed has the nodes without answers, by the reason.
	missed map[string][]string
}

// ask asks the agents on nodes. Unseen has the nodes whose agents do not answer in time.
func (r *reader) ask(ctx context.Context, limit time.Duration, nodes ...string) error {
	timed, cancel := context.WithTimeout(ctx, cmp.Or(r.AskLimit, limit))
	defer cancel()
	a := &asking{reader: r, trusted: r.trusted(), denied: map[string]error{}, missed: map[string][]string{}}
	down := Down(r.facts.Nodes)
	var g errgroup.Group
	g.SetLimit(askNodes)
	for i, node := range nodes {
		if down[node] {
			a.miss("a node that is not Ready runs no command", node)
			continue
		}
		questions := a.of(node)
		g.Go(func() error {
			r.Progress(fmt.Sprintf("asks the agents of node %d of %d: %s", i+1, len(nodes), node))
			a.node(timed, node, questions)
			return nil
		})
	}
	_ = g.Wait()
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	a.unseen()
	return nil
}

// trusted returns the UIDs of the DaemonSets whose pods are asked. Everybody can give a pod, or a DaemonSet in their namespace, the
// labels of an agent. So a ClusterPolicy, if there is one, names the namespaces.
func (r *reader) trusted() map[types.UID]bool {
	namespaces := map[string]bool{}
	for _, p := range r.facts.Policies {
		maps.Copy(namespaces, observe.PolicyOf(p).Status.Namespaces("DaemonSet"))
	}
	trusted := map[types.UID]bool{}
	for _, ds := range r.facts.DaemonSets {
		if len(namespaces) == 0 || namespaces[ds.Namespace] {
			trusted[ds.UID] = true
		}
	}
	return trusted
}

// of returns the questions for the agents on a node.
func (a *asking) of(node string) (all []Question) {
	for _, p := range a.facts.Pods {
		name := facts.Agent(p.Labels)
		if p.Spec.NodeName != node || p.Labels["app.kubernetes.io/part-of"] != "outrigger" || !runs(p, name) {
			continue
		}
		if len(a.trusted) == 0 {
			a.miss("only pods of the DaemonSets of agents are asked, and no DaemonSet is known", node)
		}
		if owner := metav1.GetControllerOf(p); owner == nil || !a.trusted[owner.UID] {
			continue
		}
		if name == facts.Exporter && !a.processes {
			continue
		}
		for _, words := range questions(name) {
			all = append(all, Question{Namespace: p.Namespace, Pod: p.Name, Container: name, Command: append([]string{"/usr/bin/" + name}, words...)})
		}
	}
	return all
}

func runs(p *corev1.Pod, container string) bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container {
			return s.State.Running != nil
		}
	}
	return false
}

// node asks all questions about a node at the same time, so that one that hangs delays no other one.
func (a *asking) node(ctx context.Context, node string, questions []Question) {
	var g errgroup.Group
	g.SetLimit(askParallel)
	for _, q := range questions {
		g.Go(func() error {
			a.question(ctx, node, q)
			return nil
		})
	}
	_ = g.Wait()
}

func (a *asking) question(ctx context.Context, node string, q Question) {
	a.mu.Lock()
	denied := a.denied[q.Namespace] != nil
	a.mu.Unlock()
	if denied {
		return
	}
	output, err := Ask(ctx, a.client, q)
	switch {
	case isForbidden(err):
		a.mu.Lock()
		a.denied[q.Namespace] = err
		a.mu.Unlock()
		return
	case errors.Is(err, context.DeadlineExceeded):
		a.miss(noAnswer, node)
		return
	}
	answer := facts.Answer{Node: node, Namespace: q.Namespace, Pod: q.Pod, Command: q.Command, Output: output}
	if err != nil {
		answer.Error = err.Error()
	}
	a.add(func(f *facts.Facts) { f.Answers = append(f.Answers, answer) })
}

// miss records a node whose agents have not answered.
func (a *asking) miss(why, node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.missed[why], node) {
		a.missed[why] = append(a.missed[why], node)
	}
}

// unseen adds the missing answers to the facts.
func (a *asking) unseen() {
	add := func(what, why string) { a.facts.Unseen = append(a.facts.Unseen, facts.Unseen{What: what, Why: why}) }
	for _, namespace := range slices.Sorted(maps.Keys(a.denied)) {
		add("answers of agents in the namespace "+namespace, a.denied[namespace].Error())
	}
	for _, why := range slices.Sorted(maps.Keys(a.missed)) {
		nodes := slices.Sorted(slices.Values(a.missed[why]))
		add("answers of agents on "+health.Abbreviate(nodes, len(nodes)), why)
	}
}

// Question is a command in a container.
type Question struct {
	Namespace, Pod, Container string
	Command                   []string
}

// Ask runs a command in a container, through a WebSocket, or SPDY if the way to the API server has no WebSockets.
// It returns the standard output, at most maxAnswer bytes. The error of a command that fails has its standard
// error. It needs the verb create on pods/exec.
func Ask(ctx context.Context, client *cluster.Client, q Question) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	request := client.Core.Post().Namespace(q.Namespace).Resource("pods").Name(q.Pod).SubResource("exec").
		Param("container", q.Container).Param("stdout", "true").Param("stderr", "true")
	for _, word := range q.Command {
		request.Param("command", word)
	}
	url := request.URL()
	websocket, err := remotecommand.NewWebSocketExecutor(client.REST, http.MethodGet, url.String())
	if err != nil {
		return "", fmt.Errorf("run %s: %w", q.Command[0], err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(client.REST, http.MethodPost, url)
	if err != nil {
		return "", fmt.Errorf("run %s: %w", q.Command[0], err)
	}
	both, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return !isForbidden(err) && (httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err))
	})
	if err != nil {
		return "", fmt.Errorf("run %s: %w", q.Command[0], err)
	}
	out, said := &bounded{most: maxAnswer}, &bounded{most: maxAnswer}
	err = both.StreamWithContext(agent.Unlogged(ctx), remotecommand.StreamOptions{Stdout: out, Stderr: said})
	if err != nil {
		err = fmt.Errorf("%s: %w", cmp.Or(string(bytes.TrimSpace(said.text.Bytes())), "run "+q.Command[0]), err)
	}
	return out.text.String(), err
}

// isForbidden reports whether the caller may not run a command in a container. What the command itself says does not count: it can
// lack a right too.
func isForbidden(err error) bool {
	if failure, is := errors.AsType[*httpstream.UpgradeFailureError](err); is { // a WebSocket
		return apierrors.IsForbidden(failure.Cause)
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	const spdy = "unable to upgrade connection: " // the error of SPDY is a text
	return err != nil && strings.HasPrefix(err.Error(), spdy) && strings.Contains(err.Error(), " is forbidden: ")
}

var errTooLong = errors.New("the answer is too long")

// bounded is a buffer with a limit.
type bounded struct {
	text bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > b.most {
		return 0, errTooLong
	}
	return b.text.Write(p)
}
