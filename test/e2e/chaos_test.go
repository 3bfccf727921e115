//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/test/e2e/stack"
)

const (
	// longest is the longest time that the faults of a round stay.
	longest = 3 * time.Second
	// settled is how long everything must stay right: an agent may notice a fault late.
	settled = 2 * time.Second
	// chaosVariable has how long the faults last, instead of 20 s beside other tests.
	chaosVariable = "OUTRIGGER_CHAOS"
)

// TestChaos does what chaosFaults returns to the agents, at random. After each round,
// everything that they publish must be right again within 10 s. The seed decides what
// happens, and the machine how far it gets in the time.
func TestChaos(t *testing.T) {
	lasts := lasting(t, chaosVariable, 20*time.Second)
	seed := uint64(time.Now().UnixNano())
	if text, found := os.LookupEnv("OUTRIGGER_CHAOS_SEED"); found {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("read OUTRIGGER_CHAOS_SEED: %v", err)
		}
	}
	for _, output := range []string{"node", "nfd-file"} {
		t.Run(output, func(t *testing.T) {
			t.Logf("the faults are those of OUTRIGGER_CHAOS_SEED=%d", seed)
			c := newChaos(t, output)
			c.seed = seed
			c.run(t, rand.New(rand.NewPCG(seed, 0)), time.Now().Add(lasts/2))
			c.report(t)
			if _, err := shared.RunVectorAdd(t.Context(), "after-chaos", limit); err != nil {
				t.Error(err)
			}
		})
	}
}

// chaos is one run of faults.
type chaos struct {
	api    *stack.API
	seed   uint64
	want   state
	faults []fault
	// present are the faults that are not undone.
	present []fault
	// overwritten counts the faults that overwrite the Node.
	overwritten int
	// took has the recovery after each round with a fault, by the fault's name.
	took map[string][]time.Duration
}

// newChaos installs both agents with a config that must not get lost, and small folders
// that can be filled. All of it goes when the test ends.
func newChaos(t *testing.T, output string) *chaos {
	t.Helper()
	c := &chaos{took: map[string][]time.Duration{}}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		// Running agents would write their files again.
		for _, agent := range []string{"device-plugin", "feature-discovery"} {
			if err := shared.Uninstall(ctx, agent); err != nil {
				t.Error(err)
			}
		}
		script := "for dir in " + smallFolders + "; do umount $dir || exit 1; done; rm -rf " + nfdFolder
		if _, err := shared.Exec(ctx, gpuNode(), "sh", "-c", script); err != nil {
			t.Error(err)
		}
	})
	c.api = bare(t)
	onNode(t, "sh", "-c", "for dir in "+smallFolders+"; do mkdir -p $dir && mount -t tmpfs -o size=1m,mode=755 chaos $dir || exit 1; done")
	installDiscovery(t, false, timeSlicing, "publish="+output, "readyChain={driver,plugin}")
	pluginWith(t, timeSlicing)
	allocatable(t, 2*gpus, limit)
	nodeIs(t, c.api, gpuNode(), "the node is ready", readyIs("True", ""))
	eventually(t, "what must be is there", func() bool {
		var err error
		c.want, err = readState(t.Context(), c.api)
		return err == nil && c.want.complete(output)
	})
	c.faults = append(chaosFaults(t, slices.Sorted(maps.Keys(c.want.Files))), c.overwrites()...)
	t.Cleanup(func() { c.undo(context.WithoutCancel(t.Context()), t) })
	return c
}

// state is what the agents and the kubelet tell of the GPU node.
type state struct {
	GPUs, Ready string
	Labels      map[string]string
	// Files are the facts, the claims of GPUs, the last known label, the CDI specs and the
	// features file. The record of XIDs is not among them: it stays, empty, after the first XID.
	Files map[string]string
}

// complete tells whether it is all that must be there.
func (s state) complete(output string) bool {
	const replicas = "nvidia.com/gpu.replicas"
	labels := s.Labels[replicas] == "2"
	if output == "nfd-file" {
		labels = strings.Contains(s.Files[nfdFolder+"/gfd"], replicas+"=2\n")
	}
	return labels && s.GPUs == strconv.Itoa(2*gpus) && s.Ready == "True" && s.Files[pluginFact] != "" && s.Files[pluginSpec] != ""
}

// readState reads what is published now, without the times at which it was written.
func readState(ctx context.Context, api *stack.API) (state, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	n, err := api.Node(ctx, gpuNode())
	if err != nil {
		return state{}, err
	}
	const script = `for file in $(find /run/nvidia/validations /run/nvidia/leases/offer.* /run/nvidia/node-labels /var/run/cdi/ ` + nfdFolder + ` -type f ! -name gpu-incidents 2>/dev/null); do
		echo "=== $file"; cat "$file"; echo; done`
	out, err := shared.Exec(ctx, gpuNode(), "sh", "-c", script)
	if err != nil {
		return state{}, err
	}
	s := state{GPUs: n.Allocatable[stack.GPU], Ready: n.Conditions[gpuReady].Status, Labels: gpuLabels(n), Files: map[string]string{}}
	times := regexp.MustCompile(`(?m)^(OUTRIGGER_TIME|OUTRIGGER_WRITER|nvidia.com/gfd.timestamp)=.*\n`)
	for file := range strings.SplitSeq(times.ReplaceAllString(out, ""), "=== ") {
		if path, content, found := strings.Cut(file, "\n"); found {
			s.Files[path] = content
		}
	}
	return s, nil
}

// run does rounds of up to three faults until a time.
func (c *chaos) run(t *testing.T, random *rand.Rand, end time.Time) {
	t.Helper()
	for round := 0; time.Now().Before(end); round++ {
		picked := c.compatible(random.Perm(len(c.faults))[:1+random.IntN(3)])
		stay := time.Duration(random.Int64N(int64(longest)))
		var names []string
		for _, i := range picked {
			f := c.faults[i]
			names = append(names, f.name)
			c.present = append(c.present, f)
			var err error
			// What an earlier fault has killed has to come back first.
			eventually(t, fmt.Sprintf("round %d can %s", round, f.name), func() bool { err = f.do(t.Context()); return err == nil })
		}
		select {
		case <-time.After(stay):
		case <-t.Context().Done():
		}
		c.undo(t.Context(), t)
		took := c.recover(t, fmt.Sprintf("round %d: %s", round, strings.Join(names, ", ")))
		t.Logf("round %d: right %s after: %s", round, took.Round(time.Millisecond), strings.Join(names, ", "))
		if took > soon {
			t.Errorf("round %d: it took %s, want at most %s", round, took, soon)
		}
		for _, name := range names {
			c.took[name] = append(c.took[name], took)
		}
	}
}

// compatible takes an XID away where the plugin is frozen: it would be told of the XID
// after the GPU was reset, and wait whether another one follows. It takes away what
// overwrites the Node while the API server is frozen, and after that was done several
// times: feature discovery answers each overwrite within ten minutes after twice the time.
func (c *chaos) compatible(picked []int) []int {
	has := func(name string) bool {
		return slices.ContainsFunc(picked, func(i int) bool { return c.faults[i].name == name })
	}
	return slices.DeleteFunc(slices.Clone(picked), func(i int) bool {
		switch f := c.faults[i]; {
		case f.name == raiseXID:
			return has(freezePlugin)
		case f.overwrites() && (has(freezeAPI) || c.overwritten == mostOverwrites):
			return true
		case f.overwrites():
			c.overwritten++
		}
		return false
	})
}

// undo ends all faults, the last one first.
func (c *chaos) undo(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, f := range slices.Backward(c.present) {
		if f.undo == nil {
			continue
		}
		if err := f.undo(ctx); err != nil {
			t.Errorf("undo %s: %v", f.name, err)
		}
	}
	c.present = nil
}

// recover waits until everything is right and stays so after some faults, and returns how
// long it was wrong.
func (c *chaos) recover(t *testing.T, after string) time.Duration {
	t.Helper()
	begin := time.Now()
	var right time.Time
	wrong := ""
	defer func() {
		if wrong != "" {
			t.Logf("this is wrong after %s (-want +got):\n%s", after, wrong)
			out, err := shared.Kubectl(context.WithoutCancel(t.Context()), "-n", stack.Namespace, "logs",
				"--selector=app.kubernetes.io/name=device-plugin", "--tail=40")
			t.Logf("the log of device-plugin (error %v):\n%s", err, out)
		}
	}()
	eventually(t, "everything that the agents publish is right", func() bool {
		got, err := readState(t.Context(), c.api)
		wrong = cmp.Diff(c.want, got)
		if err != nil {
			wrong = err.Error()
		}
		if wrong != "" {
			right = time.Time{}
			return false
		}
		if right.IsZero() {
			right = time.Now()
		}
		return time.Since(right) >= settled
	})
	return right.Sub(begin)
}

// report prints how often each fault was done, and the slowest recovery of its rounds.
func (c *chaos) report(t *testing.T) {
	t.Helper()
	total := 0
	var slowest time.Duration
	for _, name := range slices.Sorted(maps.Keys(c.took)) {
		all := c.took[name]
		t.Logf("%4d × %-70s slowest recovery %s", len(all), name, slices.Max(all).Round(time.Millisecond))
		total, slowest = total+len(all), max(slowest, slices.Max(all))
	}
	t.Logf("%d faults of %d kinds, seed %d; slowest recovery %s", total, len(c.took), c.seed, slowest.Round(time.Millisecond))
}
