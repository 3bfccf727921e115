package read

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/tools/remotecommand"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/facts"
)

const (
	// askLimit is the time limit of a command in a container.
	askLimit = 10 * time.Second
	// maxAnswer is the maximum size of an answer, in bytes.
	maxAnswer = 1 << 20
)

// questions returns the commands for an agent, without the program.
func questions(agent string) [][]string {
	switch agent {
	case facts.DriverLoader:
		return [][]string{{"probe", "readyz"}, {"plan", "--output=json"}}
	case facts.DevicePlugin:
		return [][]string{{"probe", "readyz"}, {"explain", "--output=json"}}
	case facts.ContainerToolkit, facts.DRAPlugin, facts.MIGManager, facts.FeatureDiscovery:
		return [][]string{{"probe", "readyz"}}
	}
	return nil
}

// ask asks the agents on a node.
func (r *reader) ask(ctx context.Context, node string) error {
	var steps []step
	for _, p := range r.facts.Pods {
		if p.Spec.NodeName != node || p.Labels["app.kubernetes.io/part-of"] != "outrigger" {
			continue
		}
		agent := facts.Agent(p.Labels)
		if !runs(p, agent) {
			continue
		}
		for _, words := range questions(agent) {
			q := Question{Namespace: p.Namespace, Pod: p.Name, Container: agent, Command: append([]string{"/usr/bin/" + agent}, words...)}
			steps = append(steps, step{"the answer of " + agent, func(ctx context.Context) error { return r.askOne(ctx, node, q) }})
		}
	}
	return r.all(ctx, steps)
}

func runs(p *corev1.Pod, container string) bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container {
			return s.State.Running != nil
		}
	}
	return false
}

func (r *reader) askOne(ctx context.Context, node string, q Question) error {
	output, err := Ask(ctx, r.client, q)
	// The error of an upgrade is a text.
	if err != nil && (apierrors.IsForbidden(err) || strings.Contains(err.Error(), " is forbidden: ")) {
		return err
	}
	answer := facts.Answer{Node: node, Namespace: q.Namespace, Pod: q.Pod, Command: q.Command, Output: output}
	if err != nil {
		answer.Error = err.Error()
	}
	r.add(func(f *facts.Facts) { f.Answers = append(f.Answers, answer) })
	return nil
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
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return "", fmt.Errorf("run %s: %w", q.Command[0], err)
	}
	out, said := &bounded{most: maxAnswer}, &bounded{most: maxAnswer}
	err = both.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: said})
	if err != nil {
		err = fmt.Errorf("%s: %w", cmp.Or(string(bytes.TrimSpace(said.text.Bytes())), "run "+q.Command[0]), err)
	}
	return out.text.String(), err
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
