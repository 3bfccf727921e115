package slots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// Config is what a Book needs.
type Config struct {
	Client *kube.Client
	// Namespace is that of the agent. Its role needs the verbs list, watch, create and patch on
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
	return derive(b.leases, b.seen, self{name: b.cfg.Node, renewed: b.renewed, now: b.cfg.Now()}, w), nil
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

// Watch calls changed whenever a slot gets another holder, or another record of failures, until ctx
// ends. Renewals are no change.
func (b *Book) Watch(ctx context.Context, changed func()) {
	type slot struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec struct {
			Holder string `json:"holderIdentity"`
		} `json:"spec"`
	}
	kube.Watch(ctx, b.cfg.Client, kube.Query{Object: b.object("")}, func([]slot) { changed() })
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
	var err error
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
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return fmt.Errorf("%w (%w)", errLost, err)
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
