package ready_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/nodestate"
)

// reasonForm is the API's rule for a reason (meta/v1 Condition). A Node's own
// condition type has no rule, but its readers expect the same form.
var reasonForm = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

func checkForm(t *testing.T, c nodestate.Condition) {
	t.Helper()
	if !reasonForm.MatchString(c.Reason) {
		t.Errorf("reason %q does not match the API's rule", c.Reason)
	}
	if c.Message == "" || len(c.Message) >= 1024 || !utf8.ValidString(c.Message) {
		t.Errorf("message of %d bytes: %q", len(c.Message), c.Message)
	}
	if i := strings.IndexFunc(c.Message, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("message has an unprintable character: %q", c.Message[i:])
	}
	if !c.LastTransition.IsZero() {
		t.Errorf("LastTransition is %s, want it unset", c.LastTransition)
	}
}

// words are texts that other programs may have written.
var words = []string{
	"", "device-plugin", "580.95.05", "590.10", "two\nlines\r\n", "\x1b[31m", "\xff\xfe\xc3", "\u202e", "\x00",
	strings.Repeat("€", 400), strings.Repeat("x", 1200), strings.Repeat("a\n", 600), "; fix: rm -rf /",
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func randomErr(r *rand.Rand) error {
	err := pick(r, nil, nil, nil, gpu.ErrNoDriver, gpu.ErrHangs, gpu.ErrClosed, contract.ErrClaimed, errors.New("x"))
	if err == nil {
		return nil
	}
	return errors.Join(err, errors.New(pick(r, words...)))
}

func randomNode(r *rand.Rand) *gpu.Node {
	if r.IntN(6) == 0 {
		return nil
	}
	n := node(r.IntN(17), 0)
	n.Driver.Version = pick(r, words...)
	faulty := r.IntN(3)
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if r.IntN(2) < faulty {
			g.Fault = &gpu.Fault{Op: pick(r, words...), Reason: pick(r, words...)}
		}
		g.Recovery = pick(r, gpu.RecoveryUnknown, gpu.RecoveryUnknown, gpu.RecoveryNone, gpu.RecoveryIMEXDomain, gpu.RecoveryReset, "odd\n")
		g.UUID = gpu.UUID(strconv.Itoa(i) + pick(r, words...))
	}
	return n
}

func randomFacts(r *rand.Rand) map[contract.Name]contract.Fact {
	out := valid()
	for n, f := range out {
		switch r.IntN(8) {
		case 0:
			delete(out, n)
		case 1, 2:
			f.State = pick(r, contract.Missing, contract.Stale, contract.WriterDead, contract.Unreadable, "", "of a later version")
			f.Reason = "r" + pick(r, words...)
			f.Stamp.Writer = pick(r, words...)
			out[n] = f
		case 3:
			f.Stamp.DriverVersion = pick(r, words...)
			out[n] = f
		}
	}
	return out
}

// holds reports whether a link holds, independent of the code under test.
func holds(l ready.Link, o ready.Observed) bool {
	asked := o.Err == nil
	if l == ready.Driver {
		answered := asked || errors.Is(o.Err, contract.ErrClaimed) || errors.Is(o.Err, gpu.ErrClosed)
		return o.Hang == nil && answered && o.Node != nil && slices.ContainsFunc(o.Node.GPUs, func(g gpu.GPU) bool {
			return g.Fault == nil && (!g.Recovery.Needed() || g.Recovery == gpu.RecoveryIMEXDomain)
		})
	}
	valid := func(n contract.Name) bool {
		f := o.Facts[n]
		fits := !asked || o.Node == nil || f.Stamp.DriverVersion == "" || f.Stamp.DriverVersion == o.Node.Driver.Version
		return f.State == contract.Valid && fits
	}
	if l == ready.MIG && o.Node != nil && !slices.ContainsFunc(o.Node.GPUs, func(g gpu.GPU) bool { return g.MIG != nil }) {
		return true
	}
	return valid(contract.Name(l+"-ready")) || l == ready.Plugin && valid(contract.DRAReady)
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same sequence each time
	trues := 0
	for range 5000 {
		chain := slices.DeleteFunc(ready.Links(), func(ready.Link) bool { return r.IntN(3) == 0 })
		if len(chain) == 0 {
			continue
		}
		o := judged(ready.Observed{Node: randomNode(r), Err: randomErr(r), Facts: randomFacts(r)})
		if r.IntN(8) == 0 {
			o.Hang = errors.New("h" + pick(r, words...))
		}
		got := ready.Derive(chain, o)
		checkForm(t, got)
		if again := ready.Derive(chain, o); !reflect.DeepEqual(got, again) {
			t.Errorf("Derive() = %+v and then %+v", got, again)
		}
		broken := slices.IndexFunc(chain, func(l ready.Link) bool { return !holds(l, o) })
		if (broken < 0) != (got.Status == ready.True) || (broken < 0) != (got.Reason == ready.GPUsReady) {
			t.Errorf("Derive(%v, %+v) = %+v", chain, o, got)
		}
		if broken >= 0 && !belongs(cause.Code(got.Reason), chain[broken]) {
			t.Errorf("the first link that does not hold is %s, the reason is %s", chain[broken], got.Reason)
		}
		if t.Failed() {
			return
		}
		if got.Status == ready.True {
			trues++
		}
	}
	if trues < 100 {
		t.Errorf("only %d of the nodes are ready: too few for this test to prove anything", trues)
	}
}

// belongs reports whether a reason belongs to a link.
func belongs(reason cause.Code, l ready.Link) bool {
	switch {
	case reason == cause.Starting:
		return true
	case l == ready.Driver:
		return strings.HasPrefix(string(reason), "Driver") || reason == cause.NoGPU || reason == cause.AllGPUsFaulty
	default:
		return strings.HasPrefix(strings.ToLower(string(reason)), string(l))
	}
}
