package slots_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"outrigger.dev/agents/driver-loader/internal/slots"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
)

// fleet is nodes of a cluster with a real API server.
type fleet struct {
	*testing.T
	client *kube.Client
	// passed is how far the clocks of the nodes are ahead.
	passed time.Duration
}

func newFleet(t *testing.T) *fleet {
	return &fleet{T: t, client: apitest.Client(t, apitest.Start(t), "any", "driver-loader")}
}

func (f *fleet) node(name string) *slots.Book {
	return slots.New(slots.Config{
		Client: f.client, Namespace: "default", Node: name, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Unix(1e9, 0).Add(f.passed) },
	})
}

func (f *fleet) look(b *slots.Book, w slots.Want) slots.View {
	f.Helper()
	v, err := b.Look(f.Context(), w)
	if err != nil {
		f.Fatal(err)
	}
	return v
}

func (f *fleet) take(b *slots.Book, w slots.Want) slots.View {
	f.Helper()
	if err := b.Take(f.Context(), f.look(b, w)); err != nil {
		f.Fatal(err)
	}
	return f.look(b, w)
}

func (f *fleet) settle(b *slots.Book, failed string) {
	f.Helper()
	if err := b.Settle(f.Context(), failed); err != nil {
		f.Fatal(err)
	}
}

func TestALifeOfOneSlot(t *testing.T) {
	f, want := newFleet(t), slots.Want{Driver: "2", Slots: 1, MaxFailures: 2}
	a, b, c := f.node("a"), f.node("b"), f.node("c")
	if !f.take(a, want).Held {
		t.Fatal("a does not get the slot, which is free")
	}
	if v := f.take(b, want); v.Held || v.Free() || v.Holders[0] != "a" {
		t.Fatalf("b sees %+v, while a has the slot", v)
	}
	if !f.look(f.node("a"), want).Held {
		t.Error("an agent of a that starts again does not have its slot")
	}

	// a renews, so that it keeps the slot. Then it dies.
	f.passed += slots.Duration / 2
	f.look(a, want)
	f.look(b, want)
	f.passed += slots.Duration - time.Second
	if f.look(b, want).Free() {
		t.Error("b may take the slot before it expired")
	}
	f.passed += time.Second
	if !f.take(b, want).Held {
		t.Fatal("b does not get the slot of a, which died")
	}
	if f.look(a, want).Held {
		t.Error("a, which is back, holds the slot that b has")
	}

	// A failure frees the slot, and is remembered. The second one halts the fleet.
	f.settle(b, "2")
	if v := f.take(c, want); !v.Held {
		t.Fatalf("c sees %+v after one failure of two", v)
	}
	f.settle(c, "2")
	if v := f.look(a, want); v.Free() || fmt.Sprint(v.Failed) != "[b c]" {
		t.Errorf("after two failures, a sees %+v", v)
	}
	next := want
	next.Driver = "3"
	if v := f.take(c, next); !v.Held {
		t.Errorf("the failures of one driver halt the upgrade to another one: %+v", v)
	}
	f.settle(c, "")
	if v := f.look(a, want); fmt.Sprint(v.Failed) != "[]" || !v.Free() {
		t.Errorf("after a success of c, a sees %+v", v)
	}
}

func TestAFailureAfterTheSlotWasLostIsRecorded(t *testing.T) {
	f, want := newFleet(t), slots.Want{Driver: "2", Slots: 1, MaxFailures: 1}
	f.settle(f.node("a"), "2") // no Lease was ever there
	if v := f.look(f.node("b"), want); len(v.Failed) != 1 {
		t.Errorf("b sees %+v", v)
	}
	f.settle(f.node("a"), "")
	if !f.take(f.node("b"), want).Held {
		t.Error("b gets no slot")
	}
	f.settle(f.node("a"), "2") // b has the only one
	if v := f.look(f.node("b"), want); !v.Held || len(v.Failed) != 1 {
		t.Errorf("b, which has the slot, sees %+v", v)
	}
}

func TestManyNodesAtOnce(t *testing.T) {
	f, want := newFleet(t), slots.Want{Driver: "2", Slots: 2}
	const nodes = 8
	var mu sync.Mutex
	var running, most, done int
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range nodes {
		all.Go(func() {
			b := f.node(fmt.Sprint("node", i))
			for ctx.Err() == nil {
				v, err := b.Look(ctx, want)
				if err == nil && !v.Held {
					err = b.Take(ctx, v)
				}
				if err != nil {
					t.Error(err)
					cancel()
					return
				}
				if !v.Held {
					continue
				}
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				if _, err := b.Look(ctx, want); err != nil { // the others have time to take a slot too many
					t.Error(err)
				}
				mu.Lock()
				running--
				done++
				mu.Unlock()
				if err := b.Settle(ctx, ""); err != nil {
					t.Error(err)
				}
				return
			}
		})
	}
	all.Wait()
	if most > want.Slots || done != nodes {
		t.Errorf("%d nodes were upgraded, %d at once", done, most)
	}
}
