package index_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/index"
)

// A GPU keeps its index while the node runs, for agents that were started before the change and
// after it.
func TestGPUsKeepTheirIndices(t *testing.T) {
	for name, c := range map[string]struct {
		first, then, want string
	}{
		"the first GPU leaves the bus":                {"abc", "-bc", "1=b* 2=c*"},
		"a GPU in the middle leaves":                  {"abc", "a-c", "0=a 2=c*"},
		"the last one leaves":                         {"abc", "ab-", "0=a 1=b"},
		"a GPU is plugged in before the others":       {"-bc", "abc", "0=b* 1=c* 2=a*"},
		"a GPU replaces another":                      {"abc", "xbc", "1=b 2=c 3=x*"},
		"two GPUs swap their places":                  {"abc", "bac", "0=a* 1=b* 2=c"},
		"a GPU comes back":                            {"abc", "abc", "0=a 1=b 2=c"},
		"a GPU is lost":                               {"abc", "aBc", "0=a 1= 2=c"},
		"a GPU whose UUID was not known has one":      {"aBc", "abc", "0=a 1=b 2=c"},
		"all GPUs leave but one, which moves":         {"abc", "c--", "2=c*"},
		"a GPU without UUID is in the place of none":  {"ab-", "abC", "0=a 1=b 2="},
		"all places have other GPUs":                  {"abc", "xyz", "3=x* 4=y* 5=z*"},
		"GPUs are plugged in at first":                {"", "ab", "0=a 1=b"},
		"a GPU is back in its place after another":    {"ab", "xb", "1=b 2=x*"},
		"the places of all GPUs change, none is lost": {"abcd", "dcba", "0=a* 1=b* 2=c* 3=d*"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, c.first)
			running := h.agent()
			h.see(running)
			h.list(c.then)
			h.want("an agent that was running", c.want, running)
			h.want("an agent that has just started", c.want, h.agent())
		})
	}
}

// A GPU of which nothing is known has NVML's index, if that is free.
func TestGPUsOfWhichNothingIsKnown(t *testing.T) {
	for name, c := range map[string]struct{ first, then, want string }{
		"it is where it was":           {"abc", "aBc", "0=a 1= 2=c"},
		"it is so from the start":      {"aBc", "aBc", "0=a 1= 2=c"},
		"it is at another position":    {"abc", "-Bc", "0= 2=c*"},
		"another GPU has the position": {"abcd", "-bcD", "1=b* 2=c* 4=*"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, "")
			for _, gpus := range []string{c.first, c.then} {
				h.list(gpus)
				for i := range h.bus {
					if h.bus[i].UUID == "" {
						h.bus[i].PCI.BusID = ""
					}
				}
				h.see(h.agent())
			}
			h.want("an agent", c.want, h.agent())
		})
	}
}

// No GPU gets the index that another GPU had before it left.
func TestNoIndexIsUsedTwice(t *testing.T) {
	h := newHost(t, "ab")
	h.see(h.agent())
	for _, step := range []struct{ gpus, want string }{
		{"a-", "0=a"}, {"ac", "0=a 2=c*"}, {"-c", "2=c*"}, {"dc", "2=c* 3=d*"}, {"ab", "0=a 1=b"}, {"ae", "0=a 4=e*"},
	} {
		h.list(step.gpus)
		h.want(step.gpus, step.want, h.agent())
	}
}

// An agent that may not use all device nodes sees the indices of the others.
func TestHiddenGPUsHaveIndices(t *testing.T) {
	h := newHost(t, "--cd")
	h.want("an agent that sees two of four GPUs", "2=c* 3=d*", h.agent(), 0, 1)
	h.list("abcd")
	h.want("an agent that sees all", "0=a 1=b 2=c 3=d", h.agent())
}

func TestMIGDevicesKeepTheirIndices(t *testing.T) {
	h := newHost(t, "ab")
	h.divide("b", "xyz")
	agent := h.agent()
	h.want("at first", "0=a 1=b 1:0=x 1:1=y 1:2=z", agent)
	divide := func(devices string) {
		h.list("ab")
		h.divide("b", devices)
	}
	divide("yz")
	h.want("the first one is destroyed", "0=a 1=b 1:1=y* 1:2=z*", agent)
	divide("vyzw")
	h.want("others are created, and NVML lists one first", "0=a 1=b 1:3=v* 1:1=y 1:2=z 1:4=w*", h.agent())
	divide("vyz")
	agent.Release(h.node(), func(id gpu.UUID) bool { return id == "MIG-w" })
	divide("uvyzt")
	h.want("a pod holds one of the destroyed devices", "0=a 1=b 1:0=u 1:3=v* 1:1=y* 1:2=z* 1:5=t*", h.agent())
	divide("xw")
	h.want("the same devices are created again", "0=a 1=b 1:6=x* 1:4=w*", h.agent())
}

// A change of MIG devices that were not held frees their indices. It frees them once.
func TestAChangeOfMIGDevicesFreesTheirIndices(t *testing.T) {
	h := newHost(t, "a")
	divide := func(devices string) {
		h.list("a")
		h.divide("a", devices)
	}
	divide("xyz")
	manager, plugin := h.agent(), h.agent()
	h.see(plugin)
	manager.Release(h.node(), func(id gpu.UUID) bool { return id == "MIG-y" }, "GPU-a")
	h.want("before the change", "0=a 0:0=x 0:1=y 0:2=z", plugin)
	divide("uvz")
	h.want("after it; a container held y", "0=a 0:0=u 0:3=v* 0:2=z", plugin)
	divide("uvw")
	h.want("after another change", "0=a 0:0=u 0:3=v* 0:4=w*", plugin)
}

// After an announced change that destroyed nothing, a device that a person destroys keeps its index, because a
// container may have got the device in the meantime.
func TestAnAnnouncedChangeEnds(t *testing.T) {
	h := newHost(t, "a")
	divide := func(devices string) {
		h.list("a")
		h.divide("a", devices)
	}
	divide("xy")
	manager, plugin := h.agent(), h.agent()
	h.see(plugin)
	manager.Release(h.node(), func(gpu.UUID) bool { return false }, "GPU-a")
	h.want("after the change", "0=a 0:0=x 0:1=y", manager)
	manager.Settle("GPU-a")
	divide("uy")
	h.want("x is destroyed by hand", "0=a 0:2=u* 0:1=y", plugin)
}

// The file stays small on a node whose MIG devices change all the time.
func TestManyMIGDevices(t *testing.T) {
	h := newHost(t, "abcdefghijklmnop")
	agent := h.agent()
	used := map[string]gpu.UUID{}
	for i := range 60 {
		h.list("abcdefghijklmnop")
		for g := range h.bus {
			h.bus[g].MIG = &gpu.MIG{Enabled: true, Devices: []gpu.MIGDevice{{UUID: gpu.UUID(fmt.Sprintf("MIG-00000000-0000-4000-8000-%06x%06x", g, i))}}}
		}
		n := h.node()
		agent.Apply(n)
		for _, g := range n.GPUs {
			name := fmt.Sprintf("%d:%d", g.Index, g.MIG.Devices[0].Index)
			if was := used[name]; was != "" {
				t.Fatalf("%s names %s after %s", name, g.MIG.Devices[0].UUID, was)
			}
			used[name] = g.MIG.Devices[0].UUID
		}
	}
	if f := h.dir.Read(contract.GPUIndex); f.State != contract.Valid {
		t.Errorf("the file is %s: %s", f.State, f.Reason)
	}
}

// After a reboot, indices are NVML's. A GPU knows what a config that uses an index may mean.
func TestIndicesAfterAReboot(t *testing.T) {
	for name, c := range map[string]struct {
		first, then string
		// want has the indices of ambiguous GPUs.
		want map[string][]int
	}{
		"nothing has changed":              {"abc", "abc", nil},
		"the first GPU is gone":            {"abc", "-bc", map[string][]int{"b": {0, 1}, "c": {1, 2}}},
		"the last GPU is gone":             {"abc", "ab-", nil},
		"a GPU was replaced":               {"abc", "xbc", map[string][]int{"x": {0}}},
		"two GPUs were swapped":            {"abc", "bac", map[string][]int{"a": {0, 1}, "b": {0, 1}}},
		"a GPU was added behind":           {"ab-", "abc", nil},
		"a GPU was added in front":         {"-bc", "abc", map[string][]int{"a": {0}, "b": {0, 1}, "c": {1, 2}}},
		"the UUID of a GPU is not known":   {"abc", "aBc", nil},
		"a GPU was moved to a place of it": {"ab-", "a-b", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, c.first)
			h.see(h.agent())
			for _, boot := range []string{"two", "three"} {
				h.boot(boot, c.then)
				n := h.node()
				h.agent().Apply(n)
				var got map[string][]int
				for i, g := range n.GPUs {
					if g.Index != i || g.Shifted {
						t.Errorf("boot %s: GPU %s has the index %d, want NVML's %d", boot, g.UUID, g.Index, i)
					}
					for at := range 4 {
						if g.Ambiguous(at) {
							if got == nil {
								got = map[string][]int{}
							}
							name := strings.TrimPrefix(string(g.UUID), "GPU-")
							got[name] = append(got[name], at)
						}
					}
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("boot %s: ambiguous indices (-want +got):\n%s", boot, d)
				}
			}
			assert.NilError(t, os.Remove(filepath.Join(h.keep, "gpu-index")))
			n := h.node()
			h.agent().Apply(n)
			for _, g := range n.GPUs {
				if g.Earlier != nil {
					t.Errorf("GPU %s is ambiguous after the file was removed: %s", g.UUID, g.Earlier)
				}
			}
		})
	}
}

// Containers may keep the names of MIG devices over a reboot.
func TestMIGDevicesKeepTheirIndicesOverAReboot(t *testing.T) {
	h := newHost(t, "ab")
	h.divide("b", "xyz")
	h.see(h.agent())
	h.boot("two", "ab")
	h.divide("b", "yzv")
	h.want("after a reboot", "0=a 1=b 1:1=y* 1:2=z* 1:3=v*", h.agent())
}

// Without a run root, or with a file that others can write, each agent has its indices in memory.
func TestWithoutAFile(t *testing.T) {
	for name, spoil := range map[string]func(*host){
		"there is no run root":      func(h *host) { assert.NilError(h.t, os.RemoveAll(h.dir.Root)) },
		"others may write the file": func(h *host) { assert.NilError(h.t, os.Chmod(h.dir.Path(contract.GPUIndex), 0o666)) },
		"the file is no list":       func(h *host) { assert.NilError(h.t, os.WriteFile(h.dir.Path(contract.GPUIndex), []byte("?"), 0o600)) },
		"the file was removed":      func(h *host) { assert.NilError(h.t, os.Remove(h.dir.Path(contract.GPUIndex))) },
		"an index is no number": func(h *host) {
			assert.NilError(h.t, h.dir.Write(contract.GPUIndex, contract.Record{Writer: "x", Values: map[string]string{"GPU_x": "GPU-z@"}}))
		},
		"a file without a stamp": func(h *host) {
			assert.NilError(h.t, os.WriteFile(h.dir.Path(contract.GPUIndex), []byte("GPU_0=GPU-z@\n"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, "abc")
			agent := h.agent()
			h.see(agent)
			spoil(h)
			h.list("-bc")
			h.want("the agent", "1=b* 2=c*", agent)
			h.want("the agent, once more", "1=b* 2=c*", agent)
		})
	}
	t.Run("another agent has no run root", func(t *testing.T) {
		h := newHost(t, "ab")
		assert.NilError(t, os.RemoveAll(h.dir.Root))
		h.want("it", "0=a 1=b", h.agent())
		if strings.Contains(h.log.String(), "level=WARN") {
			t.Errorf("it warns:\n%s", h.log.String())
		}
	})
	var none *index.Pins
	n := &gpu.Node{GPUs: []gpu.GPU{{Index: 3, UUID: "GPU-a"}}}
	if none.Apply(n); n.GPUs[0].Index != 3 {
		t.Errorf("no pins change the index to %d", n.GPUs[0].Index)
	}
}

// An agent that starts after a shift agrees with the others, although somebody has spoiled the file.
func TestKeep(t *testing.T) {
	for name, spoil := range map[string]func(*host) error{
		"removed": func(h *host) error { return os.Remove(h.dir.Path(contract.GPUIndex)) },
		"empty":   func(h *host) error { return os.Truncate(h.dir.Path(contract.GPUIndex), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, "abc")
			agent := h.agent()
			agent.Keep() // it knows no GPU yet
			h.want("the agent", "0=a 1=b 2=c", agent)
			h.list("-bc")
			assert.NilError(t, spoil(h))
			agent.Keep()
			h.want("an agent that starts now", "1=b* 2=c*", h.agent())
		})
	}
	var none *index.Pins
	none.Keep()
}

// What has moved is logged once.
func TestShiftsAreLoggedOnce(t *testing.T) {
	h := newHost(t, "ab")
	agent := h.agent()
	h.see(agent)
	h.list("-b")
	for range 3 {
		h.see(agent)
	}
	if n := strings.Count(h.log.String(), "other indices"); n != 1 {
		t.Errorf("a shift is logged %d times:\n%s", n, h.log.String())
	}
	h.list("ab")
	if h.see(agent); !strings.Contains(h.log.String(), "indices again") {
		t.Errorf("the end of a shift is not logged:\n%s", h.log.String())
	}
}
