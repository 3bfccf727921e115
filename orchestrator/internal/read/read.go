// Package read reads the facts of a diagnosis from a cluster, with the rights of the caller. It asks the API
// server for the objects that can matter, and agents, by a command in their containers, for what only their node
// knows. It lists the parts that it could not read.
package read

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/facts"
)

// parallel is the number of requests and commands that run at the same time.
const parallel = 8

// Config describes what to read.
type Config struct {
	Client *cluster.Client
	Target facts.Target
	// Ask says that agents on the node of the target are asked. It needs the verb create on pods/exec.
	Ask bool
	// AskLimit is the time limit of all commands together. 0 means 15 s, or 2 min for Everything.
	AskLimit time.Duration
	// Progress is called before each step, with its name. It may be nil. Calls can be concurrent.
	Progress func(step string)
}

// reader reads the facts of one target.
type reader struct {
	Config
	client *cluster.Client

	// processes says that the exporters are asked for the processes on GPUs.
	processes bool

	// mu protects the facts.
	mu    sync.Mutex
	facts facts.Facts
	seen  map[string]bool
}

func newReader(cfg Config) *reader {
	r := &reader{Config: cfg, client: cfg.Client, facts: facts.Facts{Taken: time.Now().UTC()}, seen: map[string]bool{}}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	return r
}

// Read returns the facts. The error says that the API server does not answer, or that the target does not exist. At the deadline of
// the context, Read returns the facts until then, and Unseen has the other parts.
func Read(ctx context.Context, cfg Config) (facts.Facts, error) {
	r := newReader(cfg)
	var err error
	if r.facts.Server, err = r.client.Version(ctx); err != nil {
		return facts.Facts{}, err
	}
	steps := r.common()
	switch {
	case cfg.Target.Node != "":
		err = r.node(ctx, steps)
	case cfg.Target.Pod != "":
		err = r.pod(ctx, steps)
	default:
		err = r.cluster(ctx, steps)
	}
	r.sort()
	return r.facts, err
}

// step reads one part of the cluster.
type step struct {
	what string
	do   func(context.Context) error
}

// all performs steps at the same time. A step that fails adds to Unseen, except if no API server answers.
func (r *reader) all(ctx context.Context, steps []step) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, s := range steps {
		g.Go(func() error {
			r.Progress("reads " + s.what)
			return r.missing(ctx, s.what, s.do(ctx))
		})
	}
	return g.Wait()
}

// missing records a part that could not be read, also because of the time limit. It returns an error that concerns every request.
func (r *reader) missing(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	explained := cluster.Explain(r.client.REST, err)
	if _, away := errors.AsType[*cluster.UnreachableError](explained); away && ctx.Err() == nil {
		return explained
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	if apierrors.IsNotFound(err) {
		return nil // the cluster does not have the kind
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.Unseen = append(r.facts.Unseen, facts.Unseen{What: what, Why: err.Error()})
	return nil
}

// add runs a change of the facts.
func (r *reader) add(change func(f *facts.Facts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.facts)
}

// addPod adds a trimmed copy of a pod, once.
func (r *reader) addPod(p *corev1.Pod) {
	r.add(func(f *facts.Facts) {
		if key := p.Namespace + "/" + p.Name; !r.seen[key] {
			r.seen[key] = true
			f.Pods = append(f.Pods, trimPod(p).DeepCopy())
		}
	})
}

// sort makes the facts independent of the order of the answers.
func (r *reader) sort() {
	f := &r.facts
	slices.SortFunc(f.Nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(f.Pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(f.Unseen, func(a, b facts.Unseen) int { return strings.Compare(a.What, b.What) })
	slices.SortFunc(f.Answers, func(a, b facts.Answer) int {
		return cmp.Or(strings.Compare(a.Pod, b.Pod), slices.Compare(a.Command, b.Command))
	})
}
