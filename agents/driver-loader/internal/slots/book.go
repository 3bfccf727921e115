package slots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// Config is what a Book needs.
type Config struct {
	Client *kube.Client
	// Namespace is that of the agent. Its role needs the verbs list, create and patch on
	// leases there.
	Namespace string
	// Node is the name of this node.
	Node string
	Log  *slog.Logger
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Book takes, renews and gives back slots for a node. It is safe for concurrent use.
type Book struct {
	cfg Config

	mu      sync.Mutex
	leases  []Lease
	seen    map[string]sighting
	renewed time.Time
}

// errLost is returned by a write that another node was faster than.
var errLost = errors.New("another node changed the slot first")

// maxTries is how often Settle tries again after another node was faster.
const maxTries = 10

// New returns a Book.
func New(cfg Config) *Book {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Book{cfg: cfg, seen: map[string]sighting{}}
}

func (b *Book) object(name string) kube.Object {
	return kube.Object{API: "coordination.k8s.io/v1", Resource: "leases", Namespace: b.cfg.Namespace, Name: name}
}

// Look reads the slots, and returns how the node stands. It renews a slot of the node that
// it is time to renew, so that after a restart of the agent Held is known.
func (b *Book) Look(ctx context.Context, w Want) (View, error) {
	if err := b.list(ctx); err != nil {
		return View{}, err
	}
	if err := b.Renew(ctx); err != nil && !errors.Is(err, errLost) {
		return View{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return derive(b.leases, b.seen, b.cfg.Node, b.renewed, w, b.cfg.Now()), nil
}

func (b *Book) list(ctx context.Context) error {
	all, err := kube.List[Lease](ctx, b.cfg.Client, kube.Query{Object: b.object("")})
	if err != nil {
		return fmt.Errorf("list the upgrade slots (leases of namespace %s): %w", b.cfg.Namespace, err)
	}
	now := b.cfg.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leases = ours(all)
	was := b.seen
	b.seen = make(map[string]sighting, len(b.leases))
	for _, l := range b.leases {
		s := was[l.Metadata.Name]
		if s.version != l.Metadata.ResourceVersion {
			s = sighting{version: l.Metadata.ResourceVersion, at: now}
		}
		b.seen[l.Metadata.Name] = s
	}
	return nil
}

// held returns the slots of which the node is the holder, as they were last read.
func (b *Book) held() (held []Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.leases {
		if l.Spec.Holder == b.cfg.Node {
			held = append(held, l)
		}
	}
	return held
}

// Take takes one of the free slots of a View. Whether another node was faster, the next Look
// shows.
func (b *Book) Take(ctx context.Context, v View) error {
	if !v.Free() {
		return nil
	}
	name := v.free[rand.N(len(v.free))] //nolint:gosec // no secret depends on it
	begun := b.cfg.Now()
	now := stamp(begun)
	spec := map[string]any{
		"holderIdentity": b.cfg.Node, "leaseDurationSeconds": int(Duration / time.Second),
		"acquireTime": now, "renewTime": now, "leaseTransitions": 0,
	}
	err := errLost
	if l, exists := b.lease(name); exists {
		spec["leaseTransitions"] = l.Spec.Transitions + 1
		err = b.patch(ctx, l, map[string]any{"/spec": spec})
	} else {
		err = b.create(ctx, name, spec, nil)
	}
	if err != nil && !errors.Is(err, errLost) {
		return fmt.Errorf("take the upgrade slot %s: %w", name, err)
	}
	if err == nil {
		b.confirm(begun)
	}
	return nil
}

func (b *Book) create(ctx context.Context, name string, spec map[string]any, annotations map[string]string) error {
	err := b.cfg.Client.Create(ctx, b.object(""), map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": name, "namespace": b.cfg.Namespace, "annotations": annotations}, "spec": spec,
	})
	return raced(err)
}

func (b *Book) lease(name string) (Lease, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.leases {
		if l.Metadata.Name == name {
			return l, true
		}
	}
	return Lease{}, false
}

// confirm records that the slot was renewed by a request that began at a time.
func (b *Book) confirm(begun time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewed = begun
}

// Renew renews the slot of the node, if it has one, unless it did so lately.
func (b *Book) Renew(ctx context.Context) error {
	begun := b.cfg.Now()
	b.mu.Lock()
	lately := begun.Sub(b.renewed) < RenewEvery
	b.mu.Unlock()
	for _, l := range b.held() {
		if lately {
			break
		}
		err := b.write(ctx, l.Metadata.Name, []kube.Operation{
			{Op: "test", Path: "/spec/holderIdentity", Value: encode(b.cfg.Node)},
			{Op: "add", Path: "/spec/renewTime", Value: encode(stamp(begun))},
		})
		if err != nil {
			return fmt.Errorf("renew the upgrade slot %s: %w", l.Metadata.Name, err)
		}
		b.confirm(begun)
	}
	return nil
}

// Keep renews the slot of the node until ctx ends. Call it in a goroutine of its own during an
// action that takes long.
func (b *Book) Keep(ctx context.Context) {
	for pace.Pause(ctx, RenewEvery) {
		if err := b.Renew(ctx); err != nil && ctx.Err() == nil {
			b.cfg.Log.Warn("cannot renew the upgrade slot, retrying", "in", RenewEvery, "err", err)
		}
	}
}

// Settle gives back the slot of the node. failed is the driver with which its upgrade failed,
// or empty: then earlier failures of the node are forgotten.
func (b *Book) Settle(ctx context.Context, failed string) error {
	return b.settle(ctx, func(failures map[string]string, record bool) map[string]string {
		if record {
			return settled(failures, b.cfg.Node, failed)
		}
		return settled(failures, b.cfg.Node, "")
	}, failed != "")
}

// Release gives back the slot of the node. Nothing was done with it.
func (b *Book) Release(ctx context.Context) error {
	return b.settle(ctx, func(failures map[string]string, _ bool) map[string]string { return failures }, false)
}

// settle writes all Leases that concern the node: at first the one that keeps its failure, with
// which the slot is freed.
func (b *Book) settle(ctx context.Context, next func(failures map[string]string, record bool) map[string]string, fails bool) error {
	for range maxTries {
		if err := b.list(ctx); err != nil {
			return err
		}
		err := b.settleListed(ctx, next, fails)
		if err == nil {
			b.confirm(time.Time{})
			return nil
		}
		if !errors.Is(err, errLost) {
			return fmt.Errorf("give back the upgrade slot: %w", err)
		}
	}
	return fmt.Errorf("give back the upgrade slot: %w, %d times", errLost, maxTries)
}

func (b *Book) settleListed(ctx context.Context, next func(failures map[string]string, record bool) map[string]string, fails bool) error {
	b.mu.Lock()
	leases := b.leases
	b.mu.Unlock()
	keeper := ""
	if held := b.held(); len(held) > 0 {
		keeper = held[0].Metadata.Name
	} else if len(leases) > 0 {
		keeper = leases[0].Metadata.Name
	}
	if keeper == "" && fails {
		text, err := json.Marshal(next(map[string]string{}, true))
		if err != nil {
			return err
		}
		return b.create(ctx, Prefix+"0", map[string]any{}, map[string]string{FailuresAnnotation: string(text)})
	}
	for _, last := range []bool{false, true} { // the failure is known before another slot is free
		for _, l := range leases {
			if (l.Metadata.Name != keeper) != last {
				continue
			}
			if err := b.clear(ctx, l, next(l.failures(), l.Metadata.Name == keeper)); err != nil {
				return err
			}
		}
	}
	return nil
}

// clear writes the failures of a Lease, and that the node does not hold it, if that is a change.
func (b *Book) clear(ctx context.Context, l Lease, failures map[string]string) error {
	changes := map[string]any{}
	if !maps.Equal(failures, l.failures()) {
		text, err := json.Marshal(failures)
		if err != nil {
			return err
		}
		all := map[string]string{}
		maps.Copy(all, l.Metadata.Annotations)
		all[FailuresAnnotation] = string(text)
		changes["/metadata/annotations"] = all
	}
	if l.Spec.Holder == b.cfg.Node {
		changes["/spec/holderIdentity"] = ""
	}
	if len(changes) == 0 {
		return nil
	}
	return b.patch(ctx, l, changes)
}

// patch sets fields of a Lease, unless it was changed since it was read.
func (b *Book) patch(ctx context.Context, l Lease, fields map[string]any) error {
	ops := []kube.Operation{{Op: "test", Path: "/metadata/resourceVersion", Value: encode(l.Metadata.ResourceVersion)}}
	for path, value := range fields {
		ops = append(ops, kube.Operation{Op: "add", Path: path, Value: encode(value)})
	}
	return b.write(ctx, l.Metadata.Name, ops)
}

func (b *Book) write(ctx context.Context, name string, ops []kube.Operation) error {
	return raced(b.cfg.Client.Patch(ctx, b.object(name), ops))
}

// raced returns errLost for the answers to a write that another one was before.
func raced(err error) error {
	if status, is := errors.AsType[*kube.StatusError](err); is {
		switch status.Code {
		case http.StatusConflict, http.StatusNotFound, http.StatusUnprocessableEntity:
			return fmt.Errorf("%w (%s)", errLost, status.Message)
		}
	}
	return err
}

func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and maps of them
	}
	return data
}

// stamp is a time as a MicroTime.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
