//go:build e2e

package outages_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// promised is the time after which what an agent publishes is right again. Who takes longer,
	// but not longer than limit, is tried once more: this machine does other things too.
	promised = 30 * time.Second
	limit    = 2 * promised
	// brief is the length of an outage, and long that of one in which all pauses have grown.
	brief = 3 * time.Second
	long  = 65 * time.Second
	// reached bounds how long an outage waits for an agent to call the symbol: longer than the
	// time between two readings of dcgm-exporter.
	reached = 15 * time.Second
	// nodes is how many nodes there are at a time. Their agents start together, and other tests run beside them.
	nodes = 60
	// tried is how many codes a symbol fails with. The tests of pkg/gpu/nvml/reader and telemetry try all of them.
	tried = 2
)

// codes are values of nvmlReturn_t: uninitialized, no permission, timeout, GPU is lost, reset
// required, unknown.
func codes() []int { return []int{1, 4, 10, 15, 16, 999} }

// TestWhatFailsForAWhileHeals makes each symbol of NVML that an agent calls fail, at the start of the
// agent and later, when GPU 1 is divided anew, for 3 s, and for 65 s at one of these times. A seed chooses
// the codes and this time. With OUTRIGGER_OUTAGES=all, each symbol fails with each code, and everything also
// fails for 65 s. Afterwards the agent publishes what it does where nothing failed, and
// notices what happens next.
func TestWhatFailsForAWhileHeals(t *testing.T) {
	began := time.Now()
	seed := uint64(began.UnixNano())
	if text, found := os.LookupEnv("OUTRIGGER_OUTAGES_SEED"); found {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("read OUTRIGGER_OUTAGES_SEED: %v", err)
		}
	}
	t.Logf("the codes and the long outages are those of OUTRIGGER_OUTAGES_SEED=%d", seed)
	f := newField(t)
	todo := f.scenarios(rand.New(rand.NewPCG(seed, 0)), os.Getenv("OUTRIGGER_OUTAGES") == "all")
	results := f.run(todo)
	if slow, others := late(results); len(slow) > 0 {
		t.Logf("%d agents took longer than %s: once more", len(slow), promised)
		results = slices.Concat(others, f.run(slow))
	}
	report(t, results)
	var agents, self syscall.Rusage
	if err := errors.Join(syscall.Getrusage(syscall.RUSAGE_CHILDREN, &agents), syscall.Getrusage(syscall.RUSAGE_SELF, &self)); err != nil {
		t.Fatal(err)
	}
	cpu := func(u syscall.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }
	t.Logf("%d agents in %.0f s, with %.0f s of CPU and %.0f s of the test's own",
		len(todo), time.Since(began).Seconds(), cpu(agents).Seconds(), cpu(self).Seconds())
}

// field is where the agents run.
type field struct {
	t    *testing.T
	sim  *simulator
	dir  string
	refs map[string]*reference
}

func newField(t *testing.T) *field {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make the device nodes of a simulated node")
	}
	bin, err := filepath.Abs("../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("OUTRIGGER_BIN"); dir != "" {
		bin = dir
	}
	// In memory, as /run of a node is: a busy disk keeps the close of a removed file waiting for
	// seconds, and so the end of an agent.
	dir, err := os.MkdirTemp("/dev/shm", "out") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	f := &field{t: t, sim: newSimulator(t, bin, 4), dir: dir, refs: map[string]*reference{}}
	f.refer()
	return f
}

// refer finds out how the agents get on that nothing disturbs.
func (f *field) refer() {
	f.t.Helper()
	all := kinds()
	refs, errs := make([][2]*reference, len(all)), make([]error, 2*len(all))
	var running sync.WaitGroup
	for i, k := range all {
		for j := range refs[i] {
			running.Go(func() {
				errs[2*i+j] = f.onNode("r"+strconv.Itoa(2*i+j), func(n *node, dir string) (err error) {
					refs[i][j], err = undisturbed(f.t.Context(), k, n, dir)
					return err
				})
			})
		}
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		f.t.Fatal(err)
	}
	for i, k := range all {
		if err := refs[i][0].confirm(k, refs[i][1]); err != nil {
			f.t.Fatal(err)
		}
		f.refs[k.name] = refs[i][0]
		if n := len(refs[i][0].called[atStart]); n < 25 {
			f.t.Fatalf("%s calls only %d symbols", k.name, n)
		}
	}
}

// onNode calls do with a new node, and a folder for the files of agents.
func (f *field) onNode(name string, do func(n *node, dir string) error) error {
	dir := filepath.Join(f.dir, name)
	n, err := f.sim.create(filepath.Join(dir, "n"))
	if err != nil {
		return err
	}
	return errors.Join(do(n, filepath.Join(dir, "0")), n.run("delete"))
}

// scenarios returns what is tried, the longest first.
func (f *field) scenarios(random *rand.Rand, all bool) []scenario {
	var out []scenario
	for _, k := range kinds() {
		ref := f.refs[k.name]
		for _, symbol := range slices.Sorted(maps.Keys(ref.called[atStart])) {
			drawn, phase := random.Perm(len(codes())), random.IntN(2)
			if !all {
				drawn = drawn[:tried]
			}
			for nth, at := range drawn {
				code := codes()[at]
				if code == 4 && (symbol == "nvmlDeviceGetGpuInstanceById" || symbol == "nvmlGpuInstanceGetInfo") {
					continue // what drivers always answer to unprivileged processes, which do not ask again
				}
				s := scenario{kind: k, ref: ref, symbol: symbol, code: code}
				for i := range s.outage[:after] {
					if !ref.called[i][symbol] {
						continue
					}
					s.outage[i] = brief
					if nth == 0 && i == phase {
						s.outage[i] = long
					}
				}
				out = append(out, s)
				if all {
					s.outage = [phases]time.Duration{long, min(s.outage[later]*100, long)}
					out = append(out, s)
				}
			}
		}
	}
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	slices.SortStableFunc(out, func(a, b scenario) int { return cmp.Compare(b.length(), a.length()) })
	return out
}

// run tries the scenarios, one after the other on each node.
func (f *field) run(todo []scenario) []result {
	f.t.Helper()
	next := make(chan int)
	results := make([][]result, len(todo))
	errs := make([]error, nodes)
	var running sync.WaitGroup
	for i := range errs {
		running.Go(func() {
			errs[i] = f.onNode("n"+strconv.Itoa(i), func(n *node, dir string) error {
				for j := range next {
					results[j] = todo[j].run(f.t.Context(), n, dir)
					if err := os.RemoveAll(dir); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	for j := range todo {
		next <- j
	}
	close(next)
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		f.t.Fatal(err)
	}
	return slices.Concat(results...)
}

// late returns what took longer than promised, and the results of all others.
func late(results []result) (slow []scenario, others []result) {
	for _, r := range results {
		if r.err == nil && r.took > promised && !slices.Contains(slow, r.scenario) {
			slow = append(slow, r.scenario)
		}
	}
	others = slices.DeleteFunc(slices.Clone(results), func(r result) bool { return slices.Contains(slow, r.scenario) })
	return slow, others
}

// report says how long healing took, and what did not heal.
func report(t *testing.T, results []result) {
	t.Helper()
	for _, k := range kinds() {
		for phase, name := range []string{"at the start", "later"} {
			for _, length := range []time.Duration{brief, long} {
				var took []result
				for _, r := range results {
					if r.kind.name == k.name && r.phase == phase && r.outage[phase] == length {
						took = append(took, r)
					}
				}
				if len(took) == 0 {
					continue
				}
				slices.SortFunc(took, func(a, b result) int { return cmp.Compare(a.took, b.took) })
				worst := took[len(took)-1]
				t.Logf("%-17s %4d outages of %4s %-12s healed after %4.1f s, at worst %4.1f s: %s with %d", k.name, len(took), length, name,
					took[len(took)/2].took.Seconds(), worst.took.Seconds(), worst.symbol, worst.code)
			}
		}
	}
	for _, r := range results {
		if r.err == nil && r.took > promised {
			r.err = fmt.Errorf("it published the same as before after %s only", r.took)
		}
		if r.err != nil {
			t.Errorf("%s, %s with %d for %s, phase %d: %v", r.kind.name, r.symbol, r.code, r.outage, r.phase, r.err)
		}
	}
}
