package gpu_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/hostfs"
)

func TestFileSourceKeepsTheContract(t *testing.T) {
	gputest.TestSource(t, func(t *testing.T) gputest.Harness {
		path := filepath.Join(t.TempDir(), "snapshot.json")
		node := gputest.Node(gputest.A100, 4)
		// The fake tells what the node looks like with a GPU lost.
		fake := gputest.New(node)
		write := func() {
			node, err := fake.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := hostfs.WriteFile(path, encode(t, node), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write()
		return gputest.Harness{
			Source: gpu.NewFileSource(path, slog.New(slog.DiscardHandler)),
			Node:   node,
			Lose:   func(id gpu.UUID) { fake.Lose(id); write() },
			Heal:   func(id gpu.UUID) { fake.Heal(id); write() },
		}
	})
}

func TestFileSourceKeepsTheLastGoodNode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot.json")
	put := func(data []byte) {
		if err := hostfs.WriteFile(path, data, 0o644); err != nil {
			t.Error(err)
		}
	}
	two, three := encode(t, gputest.Node(gputest.L4, 2)), encode(t, gputest.Node(gputest.L4, 3))
	put(two)
	log := &logWatch{seen: make(chan string, 8)}
	source := gpu.NewFileSource(path, slog.New(slog.NewTextHandler(log, nil)))
	events := make(chan gpu.Event, 8)
	done := make(chan error, 1)
	go func() { done <- source.Watch(t.Context(), func(e gpu.Event) { events <- e }) }()
	if e := <-events; e.Kind != gpu.EventTopologyChanged {
		t.Fatalf("first event = %+v", e)
	}
	put([]byte("{"))
	if line := <-log.seen; !strings.Contains(line, path) {
		t.Errorf("log line %q does not name the file", line)
	}
	put(two) // as before: nothing to tell
	put(three)
	if e := <-events; e.Kind != gpu.EventTopologyChanged {
		t.Errorf("event = %+v, want %s", e, gpu.EventTopologyChanged)
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil || len(events) > 0 {
		t.Errorf("Watch() = %v with %d more events, want an error and none", err, len(events))
	}
}

// logWatch hands on log lines.
type logWatch struct{ seen chan string }

func (l *logWatch) Write(p []byte) (int, error) {
	l.seen <- string(p)
	return len(p), nil
}

func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *gpu.Node)
		text   string
		want   []string
	}{
		"an empty file":               {text: "", want: []string{"line 1", "EOF"}},
		"null":                        {text: "null", want: []string{"no node"}},
		"a cut file":                  {text: "{\n\"gpus\": [\n", want: []string{"line 3", "EOF"}},
		"an unknown field":            {text: `{"gpus": [], "gpu": 1}`, want: []string{`unknown field "gpu"`}},
		"a value of another type":     {text: "{\n\"gpus\": [{\"index\": \"0\"}]}", want: []string{"line 2", "gpus.index"}},
		"something behind it":         {text: `{"driver":{"version":"1.2"},"gpus":[]} x`, want: []string{"more than one"}},
		"no driver version":           {change: func(n *gpu.Node) { n.Driver.Version = "" }, want: []string{"driver.version: is missing"}},
		"two GPUs with one UUID":      {change: func(n *gpu.Node) { n.GPUs[1].UUID = n.GPUs[0].UUID }, want: []string{"gpus[1].uuid: GPU-", "twice"}},
		"a UUID that cannot be named": {change: func(n *gpu.Node) { n.GPUs[1].UUID = "GPU-1\n=2" }, want: []string{`gpus[1].uuid: "GPU-1\n=2"`}},
		"GPUs out of order":           {change: func(n *gpu.Node) { slices.Reverse(n.GPUs) }, want: []string{"gpus[1].index"}},
		"a bus ID of NVML":            {change: func(n *gpu.Node) { n.GPUs[1].PCI.BusID = "00000000:0F:00.0" }, want: []string{`gpus[1].pci.busId: "00000000:0F:00.0"`}},
		"a fault without reason":      {change: func(n *gpu.Node) { n.GPUs[0].Fault = &gpu.Fault{} }, want: []string{"gpus[0].fault.reason"}},
		"a link to nowhere":           {change: func(n *gpu.Node) { n.Links[0].B = 7 }, want: []string{"links[0]: there is no GPU 7"}},
		"a link backwards":            {change: func(n *gpu.Node) { n.Links[0].A, n.Links[0].B = 1, 0 }, want: []string{"links[0]: a (1) is not below b (0)"}},
		"an unknown path":             {change: func(n *gpu.Node) { n.Links[0].Path = "NV12" }, want: []string{`links[0].path: "NV12"`}},
		"several bad values, all told": {
			change: func(n *gpu.Node) { n.GPUs[0].UUID, n.GPUs[1].Minor = "", -1 },
			want:   []string{"gpus[0].uuid", "gpus[1].minor"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(c.text)
			if c.change != nil {
				node := gputest.Node(gputest.A100, 2)
				c.change(node)
				text = encode(t, node)
			}
			_, err := gpu.Decode(text)
			if err == nil {
				t.Fatal("Decode() accepts it")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Decode() = %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestDecodeTakesAFaultyGPUOfWhichLittleIsKnown(t *testing.T) {
	node := gputest.Node(gputest.L4, 2)
	node.GPUs[1] = gpu.GPU{Index: 1, Minor: -1, NUMANode: -1, Fault: &gpu.Fault{Op: "nvmlDeviceGetHandleByIndex_v2", Reason: "GPU is lost"}}
	node.Links = nil
	got, err := gpu.Decode(encode(t, node))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(node, got); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func TestSnapshotNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot.json")
	source := gpu.NewFileSource(path, slog.New(slog.DiscardHandler))
	if _, err := source.Snapshot(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Snapshot() of no file = %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"gpus": 3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := source.Snapshot(t.Context())
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "gpus") {
		t.Errorf("Snapshot() of a bad file = %v, want its path and the field", err)
	}
}

// FuzzDecode checks that what Decode accepts survives a round trip, and that
// nothing makes it panic.
func FuzzDecode(f *testing.F) {
	for _, model := range []gputest.Model{gputest.A100, gputest.L4} {
		data, err := json.Marshal(gputest.Node(model, 2))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"driver":{"version":"1"},"gpus":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		node, err := gpu.Decode(data)
		if err != nil {
			return
		}
		again, err := gpu.Decode(encode(t, node))
		if err != nil {
			t.Fatalf("Decode() of what it accepted before: %v", err)
		}
		if d := cmp.Diff(node, again, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("round trip (-want +got):\n%s", d)
		}
	})
}

func encode(t *testing.T, node *gpu.Node) []byte {
	t.Helper()
	data, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
