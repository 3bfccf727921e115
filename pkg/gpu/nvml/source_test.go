package nvml_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestSourceKeepsTheContract(t *testing.T) {
	for name, lose := range map[string][]string{
		"handles are refused": {"lose", "--how=handle"},
		"calls fail":          {"lose", "--how=calls"},
	} {
		t.Run("of lost GPUs "+name, func(t *testing.T) {
			gputest.TestSource(t, func(t *testing.T) gputest.Harness {
				s := newSim(t, "--gpus=4", "--model=h100-80")
				node := s.node("Nvidia", "Hopper")
				src := s.source(nil)
				addPaths(t, src, node)
				return gputest.Harness{
					Source:  src,
					Node:    node,
					PostXID: func(id gpu.UUID, xid uint64) { s.run("xid", string(id), strconv.FormatUint(xid, 10)) },
					Lose:    func(id gpu.UUID) { s.run(append(lose, string(id))...) },
					Heal:    func(id gpu.UUID) { s.run("heal", string(id)) },
					SetDriver: func(on bool) {
						s.run("set", "driver="+map[bool]string{true: "on", false: "off"}[on])
					},
				}
			})
		})
	}
}

// addPaths takes the paths of the links, and nothing else, from the source, and
// leaves it closed, as a test finds it that has not used it yet.
func addPaths(t *testing.T, src gpu.Source, node *gpu.Node) {
	t.Helper()
	got, err := src.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(node.Links, got.Links, cmpopts.IgnoreFields(gpu.Link{}, "Path")); d != "" {
		t.Fatalf("links (-want +got):\n%s", d)
	}
	for i, l := range got.Links {
		far := node.GPUs[l.A].NUMANode != node.GPUs[l.B].NUMANode
		if far != (l.Path == gpu.PathSystem) || l.Path == gpu.PathUndetermined {
			t.Errorf("GPUs %d and %d: path %q, across NUMA nodes: %v", l.A, l.B, l.Path, far)
		}
		node.Links[i].Path = l.Path
	}
}
