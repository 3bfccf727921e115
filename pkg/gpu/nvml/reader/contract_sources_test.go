package reader_test

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/file"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/hostfs"
)

func TestDriverKeepsTheContract(t *testing.T) {
	for name, lose := range map[string][]string{
		"handles are denied": {"lose", "--how=handle"},
		"calls fail":         {"lose", "--how=calls"},
	} {
		t.Run("of lost GPUs "+name, func(t *testing.T) {
			testDriverSource(t, func(t *testing.T) harness {
				s := newSim(t, "--gpus=4", "--model=h100-80")
				node := s.node("Nvidia", "Hopper")
				src := s.source(nil)
				addPaths(t, src, node)
				return harness{
					Source: src,
					Node:   node,
					Partition: func(id gpu.UUID, profiles ...string) gpu.GPU {
						s.partition(id, profiles...)
						g := *node.ByUUID(id)
						g.MIG = s.mig(id, gputest.H100)
						return g
					},
					Profile:         "1g.10gb",
					PostXID:         func(id gpu.UUID, xid uint64) { s.run("xid", string(id), strconv.FormatUint(xid, 10)) },
					PostInstanceXID: s.xidOf,
					Lose:            func(id gpu.UUID) { s.run(append(lose, string(id))...) },
					Heal:            func(id gpu.UUID) { s.run("heal", string(id)) },
					SetDriver: func(on bool) {
						s.run("set", "driver="+map[bool]string{true: "on", false: "off"}[on])
					},
					SetFabric: s.setFabric,
				}
			})
		})
	}
}

func TestFileKeepsTheContract(t *testing.T) {
	testSource(t, func(t *testing.T) harness {
		path := filepath.Join(t.TempDir(), "snapshot.json")
		node := gputest.Node(gputest.A100, 4)
		// The fake shows the node with a lost GPU.
		fake := gputest.New(node)
		write := func() {
			node, err := fake.Snapshot(t.Context())
			assert.NilError(t, err)
			data, err := json.Marshal(node)
			if err == nil {
				err = hostfs.WriteFile(path, data, 0o644)
			}
			assert.NilError(t, err)
		}
		write()
		return harness{
			Source: file.New(path, slog.New(slog.DiscardHandler)),
			Node:   node,
			Lose:   func(id gpu.UUID) { fake.Lose(id); write() },
			Heal:   func(id gpu.UUID) { fake.Heal(id); write() },
			Partition: func(id gpu.UUID, profiles ...string) gpu.GPU {
				fake.Partition(id, profiles...)
				write()
				return gputest.Partition(gputest.Node(gputest.A100, 4), 1, profiles...).GPUs[1]
			},
			Profile: "1g.5gb",
		}
	})
}

func TestFakeKeepsTheContract(t *testing.T) {
	testDriverSource(t, func(t *testing.T) harness {
		node := gputest.Node(gputest.H100, 8)
		fake := gputest.New(node)
		return harness{
			Source: fake, Node: node,
			Lose: fake.Lose, Heal: fake.Heal, Profile: "1g.10gb",
			Partition: func(id gpu.UUID, profiles ...string) gpu.GPU {
				fake.Partition(id, profiles...)
				g := gputest.Partition(gputest.Node(gputest.H100, 8), 1, profiles...).GPUs[1]
				if g.UUID != id {
					t.Fatalf("GPU 1 is %s, not %s", g.UUID, id)
				}
				return g
			},
			PostXID: fake.PostXID, PostInstanceXID: fake.PostInstanceXID, SetDriver: fake.SetDriver,
			SetFabric: func(id gpu.UUID, fabric gpu.Fabric) { fake.SetFabric(id, &fabric) },
		}
	})
}
