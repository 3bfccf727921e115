package record_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/record"
)

// meter is the energy counters of a node. An agent reads nothing else through it.
type meter struct {
	gpu.Source
	mJ    map[gpu.UUID]uint64
	reads int
}

func (m *meter) Energy(_ context.Context, id gpu.UUID) (uint64, error) {
	m.reads++
	mJ, has := m.mJ[id]
	if !has {
		return 0, errors.New("not supported")
	}
	return mJ, nil
}

// host is a node with its run root.
type host struct {
	t     *testing.T
	dir   contract.Dir
	meter *meter
	node  *gpu.Node
}

func newHost(t *testing.T) *host {
	t.Helper()
	root := t.TempDir()
	boot := filepath.Join(root, "boot_id")
	write(t, boot, "boot-1\n")
	if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	return &host{
		t: t, dir: contract.Dir{Root: filepath.Join(root, "run"), BootIDFile: boot}, meter: &meter{mJ: map[gpu.UUID]uint64{}},
		node: &gpu.Node{GPUs: []gpu.GPU{{UUID: "GPU-0"}, {Index: 1, UUID: "GPU-1"}}},
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // no secret
		t.Fatal(err)
	}
}

// agent is one agent of the host, without its goroutines: sync does what they do.
type agent struct {
	h   *host
	m   *health.Machine
	r   *record.Record
	log *strings.Builder
}

// start starts an agent, which takes a snapshot.
func (h *host) start() *agent {
	h.t.Helper()
	rules, _ := health.ParseRules("", "")
	a := &agent{h: h, m: health.New(rules), log: &strings.Builder{}}
	a.r = record.New(record.Config{
		Contract: h.dir, Source: h.meter, Writer: "agent", Log: slog.New(slog.NewTextHandler(a.log, nil)),
	})
	a.observe()
	return a
}

func (a *agent) observe() {
	a.h.t.Helper()
	a.r.Restore(a.h.t.Context(), a.m, a.h.node)
	a.m.Observe(a.h.node, time.Now())
	a.sync()
}

// sync writes the incidents of the agent. Run writes once more after its context has ended.
func (a *agent) sync() {
	a.h.t.Helper()
	a.r.Save(a.m)
	if _, err := record.Step(a.h.t.Context(), a.r); err != nil && !errors.Is(err, contract.ErrNoRunRoot) {
		a.h.t.Error(err)
	}
}

func (a *agent) xid(id gpu.UUID, code uint64, at time.Time) {
	a.h.t.Helper()
	ev := gpu.GPUEvent(gpu.EventXID, id)
	ev.XID = code
	a.m.Apply(ev, at)
	a.sync()
}

func (a *agent) healthy(id gpu.UUID) bool { return a.m.View().Of(id).Healthy }

// file returns the lines of the file, and the time of the last write.
func (h *host) file() (map[string]string, time.Time) {
	f := h.dir.Read(contract.GPUIncidents)
	return f.Values, f.Stamp.Time
}

func (h *host) path() string { return h.dir.Path(contract.GPUIncidents) }
