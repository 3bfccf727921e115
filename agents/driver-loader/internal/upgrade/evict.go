package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/kube/eviction"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/text"
)

const (
	// defaultSlice is the longest eviction or wait for pods before the node is observed again. A
	// new desired driver or a lost grant ends the wait after that time.
	defaultSlice = time.Minute
	// defaultEvictInterval is the time between lists of the node's pods, and between requests of
	// a blocked eviction.
	defaultEvictInterval = 5 * time.Second
	// maxNamed is the largest number of pods in a cause, and maxText the largest size of a text in bytes.
	maxNamed, maxText = 5, 1024
)

// The errors of a clearing whose requests succeeded.
var (
	errTime    = errors.New("pods still run at the end of the time limit")
	errRefused = errors.New("pods may not be evicted")
)

// event is an event of a pod.
type event string

// The events of pods.
const (
	// running: the upgrade waits for the pod. evicting: the pod is about to end. gone: it has ended.
	running  event = "running"
	evicting event = "evicting"
	gone     event = "gone"
	// blocked: the API server does not permit the eviction at the moment.
	blocked event = "blocked"
	// left: the pod stays, and does not prevent the upgrade. refused: it stays, and prevents the upgrade.
	left    event = "left"
	refused event = "refused"
)

// podRecord is the last event of a pod.
type podRecord struct {
	event
	// budget is the PodDisruptionBudget that blocks the eviction, and text the reason.
	budget, text string
}

// clearing removes the pods of an action from the node.
type clearing struct {
	*Upgrade
	kind Kind
	// selector selects pods. It is not used by EvictPods, which selects pods that hold GPUs.
	selector string
	options  eviction.Options
	// seconds is the time limit of the action; 0 for no limit.
	seconds int
	// pods has the last event of each pod, by namespace and name.
	pods map[string]podRecord
}

// clearPods removes the pods of the current action. It returns after Config.Slice at the latest.
func (u *Upgrade) clearPods(ctx context.Context, j Journal, a Action, p Policy, now time.Time) *cause.Cause {
	c := clearing{Upgrade: u, kind: a.Kind, pods: map[string]podRecord{}}
	switch a.Kind {
	case WaitForJobs:
		c.selector, c.seconds = p.WaitForCompletion.PodSelector, p.WaitForCompletion.TimeoutSeconds
	case EvictPods:
		c.options, c.seconds = p.PodDeletion.options(), p.PodDeletion.TimeoutSeconds
	default:
		c.selector, c.options, c.seconds = p.Drain.PodSelector, p.Drain.options(), p.Drain.TimeoutSeconds
	}
	run, over := u.cfg.Slice, false
	if limit := time.Duration(c.seconds) * time.Second; limit > 0 {
		rest := limit - now.Sub(j.Since)
		over = rest <= run
		run = max(min(run, rest), time.Second)
	}
	return c.outcome(c.run(ctx, run), over)
}

func (e Eviction) options() eviction.Options {
	return eviction.Options{Force: e.Force, DeleteEmptyDir: e.DeleteEmptyDir}
}

// run repeats the step until all pods are gone or the time is over.
func (c *clearing) run(ctx context.Context, limit time.Duration) error {
	// With a deadline in the context, the client would fail a request that has to wait for its turn longer than that.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(limit, func() { cancel(errTime) }).Stop()
	step := c.evict
	if c.kind == WaitForJobs {
		step = c.await
	}
	for {
		n, err := step(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || n == 0:
			return err
		}
		if !pace.Pause(ctx, c.cfg.Evict) {
			return context.Cause(ctx)
		}
	}
}

// await returns the number of pods that have not ended.
func (c *clearing) await(ctx context.Context) (n int, err error) {
	pods, err := eviction.Pods(ctx, c.cfg.Client, c.selector)
	if err != nil {
		return 0, err
	}
	there := map[string]bool{}
	for i := range pods {
		if p := &pods[i]; !eviction.Ended(p) {
			c.recordPod(there, p, podRecord{event: running})
			n++
		}
	}
	c.recordGone(there)
	return n, nil
}

// evict evicts the pods that it finds, and returns their number. More pods may appear that were
// bound to the node before the cordon. If one of the pods must not be evicted, it evicts none.
func (c *clearing) evict(ctx context.Context) (n int, err error) {
	there := map[string]bool{}
	pods, err := c.choose(ctx, there)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, p := range pods {
		now := podRecord{event: evicting}
		if p.DeletionTimestamp == nil {
			err := eviction.Evict(ctx, c.cfg.Client, p)
			if b, is := errors.AsType[*eviction.Blocked](err); is {
				now = podRecord{event: blocked, budget: b.Budget, text: b.Text}
			} else if err != nil {
				errs = append(errs, err)
				continue
			}
		}
		c.recordPod(there, p, now)
	}
	c.recordGone(there)
	return len(pods), errors.Join(errs...)
}

// choose returns the pods to evict.
func (c *clearing) choose(ctx context.Context, there map[string]bool) (chosen []*eviction.Pod, err error) {
	pods, err := eviction.Pods(ctx, c.cfg.Client, c.selector)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		p := &pods[i]
		if eviction.Ended(p) {
			continue
		}
		if c.kind == EvictPods {
			if holds, err := holdsGPU(ctx, c.cfg.Client, p); err != nil {
				return nil, err
			} else if !holds {
				continue
			}
		}
		why := c.options.Obstacle(p)
		switch {
		case p.Labels[PodSkipLabel] == "true":
			c.recordPod(there, p, podRecord{event: left, text: "it has the label " + PodSkipLabel + "=true"})
		case why == eviction.None, p.DeletionTimestamp != nil && !why.Returns():
			chosen = append(chosen, p)
		case c.kind == DrainNode && why.Returns():
			c.recordPod(there, p, podRecord{event: left, text: string(why)})
		default:
			c.recordPod(there, p, podRecord{event: refused, text: withPolicyKey(why)})
			err = errRefused
		}
	}
	if err != nil {
		return nil, err
	}
	return chosen, nil
}

// withPolicyKey adds the key of the upgrade policy that allows the eviction.
func withPolicyKey(why eviction.Obstacle) string {
	switch why {
	case eviction.NoController:
		return string(why) + ": set force in upgradePolicy to evict it anyway"
	case eviction.LocalData:
		return string(why) + ": set deleteEmptyDir in upgradePolicy to evict it anyway"
	default:
		return string(why)
	}
}

// recordPod records the event of a pod. It logs new events.
func (c *clearing) recordPod(there map[string]bool, p *eviction.Pod, now podRecord) {
	name := p.Namespace + "/" + p.Name
	there[name] = true
	now.text = text.Cut(text.Printable(now.text), maxText)
	if c.pods[name] == now {
		return
	}
	c.pods[name] = now
	c.cfg.Log.Info("pod of this node", "event", now.event, "pod", name, "budget", now.budget, "text", now.text)
	if now.event == blocked && c.blocked[name] != now.budget {
		c.blocked[name] = now.budget
		c.sendEvent(true, fmt.Sprintf("the PodDisruptionBudget %s blocks the eviction of pod %s: %s", now.budget, name, now.text))
	}
}

// recordGone records which pods do not exist any more.
func (c *clearing) recordGone(there map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		if !there[name] && c.pods[name].event != gone {
			c.pods[name] = podRecord{event: gone}
			c.cfg.Log.Info("pod of this node", "event", gone, "pod", name)
		}
	}
}

// outcome returns the cause of a clearing that ended with err, or nil. over is set if the time of the
// action has ended.
func (c *clearing) outcome(err error, over bool) *cause.Cause {
	failed := cause.Cause{Subject: "pods of node " + c.cfg.Client.Node().Name}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errRefused):
		failed.Code, failed.Text = cause.PodsRefused, "they use GPUs, and the upgrade policy does not allow their eviction: "+c.named(refused)
		failed.Fix = "delete them, set force or deleteEmptyDir in upgradePolicy.gpuPodDeletion, or set the label " + PodSkipLabel + "=true on them"
		return &failed
	case over && c.kind == WaitForJobs:
		return nil // the upgrade goes on, as with NVIDIA's controller
	case errors.Is(err, errTime):
		failed.Code, failed.Text = cause.WaitingForPods, "they have not ended: "+c.named(running, blocked, evicting)
		failed.Fix = "change the PodDisruptionBudget, or delete the pods"
	default:
		failed.Code, failed.Text = cause.TemporaryFailure, text.Cut(text.OneLine(err), maxCause)
		failed.Fix = "read the log of the driver loader"
	}
	if over {
		failed.Code, failed.Text = cause.PodsLeft, failed.Text+"; the time limit of upgradePolicy has passed"
	}
	return &failed
}

// named lists the pods whose last event is in events.
func (c *clearing) named(events ...event) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		l := c.pods[name]
		if !slices.Contains(events, l.event) {
			continue
		}
		switch {
		case l.budget != "":
			name += " (PodDisruptionBudget " + l.budget + ": " + l.text + ")"
		case l.text != "":
			name += " (" + l.text + ")"
		}
		names = append(names, name)
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
