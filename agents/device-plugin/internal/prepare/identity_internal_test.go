package prepare

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
)

const steps = 25

// TestNamesStayWithTheirDevices plays random sequences of what happens to a node: GPUs are plugged in,
// unplugged, replaced, moved and lost, MIG devices change, agents restart, drivers are loaded again and
// nodes reboot, while containers get devices by any strategy. An allocated name never points to another
// device, and a device that a container has does not change its resource.
//
// OUTRIGGER_SEQUENCES is the number of sequences, and OUTRIGGER_SEED the seed of the first one. Without OUTRIGGER_SEED, each
// run plays the same sequences, so that a failure belongs to a change of the code. "make soak" plays others.
func TestNamesStayWithTheirDevices(t *testing.T) {
	count, seed := number("OUTRIGGER_SEQUENCES", 300), number("OUTRIGGER_SEED", 1)
	t.Logf("seed %d", seed)
	root, err := os.MkdirTemp(memory(), "identity") //nolint:usetesting // t.TempDir is on a disk
	assert.NilError(t, err)
	defer os.RemoveAll(root)
	grants := 0
	for i := range count {
		dir := fmt.Sprintf("%s/%d", root, i)
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as on a node
			t.Fatal(err)
		}
		w, err := play(rand.New(rand.NewPCG(seed+i, 0)), dir)
		if err != nil {
			t.Fatalf("OUTRIGGER_SEED=%d OUTRIGGER_SEQUENCES=1: %v\n%+v\n%v", seed+i, err, w.config, w.log)
		}
		grants += len(w.held)
		_ = os.RemoveAll(dir)
	}
	if grants < int(count) { //nolint:gosec // few
		t.Errorf("%d devices were given to containers in %d sequences, want more", grants, count)
	}
}

// number returns the number in a variable, or another one.
func number(variable string, other uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(variable), 10, 64); err == nil {
		return n
	}
	return other
}

// memory returns a folder without a disk, because durable files take long on a disk, "" if there is
// none.
func memory() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

func play(r *rand.Rand, dir string) (*world, error) {
	w, err := newWorld(r, dir)
	if err != nil {
		return w, err
	}
	w.see()
	for range steps {
		what, do := w.step()
		w.log = append(w.log, what)
		if err := do(); err != nil {
			return w, err
		}
		if w.r.IntN(8) > 0 { // now and then, several things happen before the agent looks
			w.see()
			if err := w.check(); err != nil {
				return w, err
			}
		}
	}
	return w, nil
}

// step returns something that happens, with its description.
func (w *world) step() (string, func() error) {
	at := w.r.IntN(len(w.slots))
	c := w.slots[at]
	done := func(f func()) func() error { return func() error { f(); return nil } }
	switch w.r.IntN(16) {
	case 0:
		return fmt.Sprintf("replace the GPU of slot %d", at), done(func() { w.unplug(at); w.slots[at] = w.newCard() })
	case 1:
		return fmt.Sprintf("unplug slot %d", at), done(func() { w.unplug(at) })
	case 2:
		return fmt.Sprintf("plug an earlier GPU into slot %d", at), done(func() { w.replug(at) })
	case 3:
		return "restart the agent", done(w.restart)
	case 4:
		return "reload the driver", done(func() { w.heal(); w.restart() })
	case 5, 6:
		return "reboot", func() error { w.heal(); w.shuffle(); return w.boot() }
	case 7:
		if c != nil {
			return fmt.Sprintf("lose slot %d", at), done(func() { c.lost = true })
		}
	case 8, 9:
		if c != nil {
			return fmt.Sprintf("divide slot %d by hand", at), done(func() { w.divide(c, func(gpu.UUID) bool { return false }) })
		}
	case 10:
		if c != nil {
			return fmt.Sprintf("the MIG manager divides slot %d", at), done(func() {
				w.see()
				w.agent.Release(w.node, w.isHeld, c.id)
				w.divide(c, w.isHeld)
				w.see()
				w.agent.Settle(c.id)
			})
		}
	case 11:
		return "the MIG manager asks the kubelet", done(func() { w.see(); w.agent.Release(w.node, w.isHeld) })
	case 12:
		return "pods end", done(func() { w.held = slices.DeleteFunc(w.held, func(grant) bool { return w.r.IntN(2) == 0 }) })
	}
	return "allocate", func() error { w.see(); return w.allocate() }
}

func (w *world) unplug(at int) {
	if w.slots[at] != nil {
		w.spare = append(w.spare, w.slots[at])
		w.slots[at] = nil
	}
}

func (w *world) replug(at int) {
	w.unplug(at)
	i := w.r.IntN(len(w.spare) + 1)
	if i == len(w.spare) {
		w.slots[at] = w.newCard()
		return
	}
	w.slots[at] = w.spare[i]
	w.spare = slices.Delete(w.spare, i, i+1)
}

// heal makes all GPUs answer again.
func (w *world) heal() {
	for _, c := range w.slots {
		if c != nil {
			c.lost = false
		}
	}
}

// shuffle changes the machine while it is off.
func (w *world) shuffle() {
	for range w.r.IntN(3) {
		a, b := w.r.IntN(len(w.slots)), w.r.IntN(len(w.slots))
		w.slots[a], w.slots[b] = w.slots[b], w.slots[a]
	}
	if w.r.IntN(3) == 0 {
		w.replug(w.r.IntN(len(w.slots)))
	}
}

// divide destroys and creates MIG devices, or turns the mode off. It keeps the devices of stays.
func (w *world) divide(c *card, stays func(gpu.UUID) bool) {
	c.devices = slices.DeleteFunc(c.devices, func(id gpu.UUID) bool { return !stays(id) && w.r.IntN(2) == 0 })
	c.mig = len(c.devices) > 0 || w.r.IntN(3) > 0
	for c.mig && len(c.devices) < 4 && w.r.IntN(2) == 0 {
		id := w.uuid("MIG")
		for slices.ContainsFunc(c.devices, func(other gpu.UUID) bool { return c.instances[other] == c.instances[id] }) {
			c.instances[id]++
		}
		c.devices = slices.Insert(c.devices, w.r.IntN(len(c.devices)+1), id)
	}
}
