package loader_test

import (
	"debug/elf"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/ldso/ldsotest"
)

const one, two = "580.95.05", "590.10.01"

// upgraded is a node of whose driver an upgrade decides.
type upgraded struct {
	*testing.T
	loadertest.Node
	version string
	params  stack.Params
	// busy and instead are what the journal of the upgrade says.
	busy    string
	instead func(string) string
	*loader.Loader
}

// newUpgraded is a node with two drivers in the store, of which the first is loaded.
func newUpgraded(t *testing.T) *upgraded {
	t.Helper()
	u := &upgraded{T: t, Node: loadertest.New(t), version: one}
	u.Stock(t, one)
	u.Stock(t, two)
	u.restart()
	u.settles(one, "")
	return u
}

// restart is a new process of the agent.
func (u *upgraded) restart() {
	cfg := u.Config("", slog.New(slog.DiscardHandler))
	cfg.Patience = time.Millisecond
	cfg.Desired = func() (loader.Desired, error) {
		return loader.Desired{Version: u.version, Params: u.params, Keep: true, Upgrading: u.busy, Instead: u.instead}, nil
	}
	u.Loader = loader.New(cfg, loadertest.Machine)
}

// settles takes all steps, after which the node has the driver, and the cause if it is not empty.
func (u *upgraded) settles(version string, code cause.Code) {
	u.Helper()
	step := u.Settle(u.Context())
	got := cause.Code("")
	if len(step.Causes) > 0 {
		got = step.Causes[0].Code
	}
	if u.Node.Loaded() != version || got != code || code == "" && step.Kind != loader.Done {
		u.Errorf("%s with driver %q and the causes %v, want driver %q and %q", step, u.Node.Loaded(), step.Causes, version, code)
	}
}

// ids returns what is loaded, and what may be upgraded to.
func (u *upgraded) ids(begun bool) (loaded, target string) {
	u.Helper()
	loaded, err := u.Loader.Loaded(u.Context())
	target, targetErr := u.Target(begun)
	if err != nil || targetErr != nil {
		u.Fatal(err, targetErr)
	}
	return loaded, target
}

// fails expects an error with a code.
func (u *upgraded) fails(what string, err error, code cause.Code) {
	u.Helper()
	c, _ := errors.AsType[cause.Cause](err)
	if c.Code != code || err == nil {
		u.Errorf("%s: %v, want %s", what, err, code)
	}
}

func (u *upgraded) succeeds(what string, err error) {
	u.Helper()
	assert.NilError(u, err, "%s", what)
}

func TestAnUpgradeSwapsTheDriver(t *testing.T) {
	u := newUpgraded(t)
	before, _ := u.ids(false)
	u.version = two
	if loaded, target := u.ids(false); loaded != before || target != "" {
		t.Errorf("before its modules are checked, %s is to be replaced by %q", loaded, target)
	}
	u.settles(one, "")
	_, target := u.ids(false)
	if !strings.HasPrefix(target, two+"-open-") || u.Published() != one {
		t.Fatalf("the node waits for an upgrade to %q, and %q is ready", target, u.Published())
	}
	u.succeeds("swap", u.Swap(t.Context(), target))
	if loaded, still := u.ids(true); u.Node.Loaded() != two || loaded != target || still != target {
		t.Errorf("loaded is %s (%s), want %s", u.Node.Loaded(), loaded, target)
	}
	u.succeeds("validate", u.Validate(t.Context()))
	u.settles(two, "")
	if u.Published() != two {
		t.Errorf("%q is ready", u.Published())
	}
	// The way back is closed, and not needed.
	u.fails("roll back", u.RollBack(t.Context(), before), cause.PreviousDriverMissing)
	u.Reboot(t)
	u.restart()
	u.settles(two, "")
}

func TestOtherParametersAreAnUpgrade(t *testing.T) {
	u := newUpgraded(t)
	u.params = stack.Params{"nvidia": {loadertest.Param + "=1"}}
	u.settles(one, "")
	loaded, target := u.ids(false)
	if loaded == target || target == "" {
		t.Fatalf("the upgrade is from %q to %q", loaded, target)
	}
	u.succeeds("swap", u.Swap(t.Context(), target))
	u.succeeds("validate", u.Validate(t.Context()))
	if loaded, target := u.ids(false); loaded != target {
		t.Errorf("the upgrade is from %q to %q again", loaded, target)
	}
	// A parameter that the driver does not have costs no pod.
	u.params = stack.Params{"nvidia": {"NVreg_Typo=1"}}
	u.settles(one, "ModuleParameterUnknown")
	if _, target := u.ids(false); target != "" {
		t.Errorf("an upgrade to %q would begin", target)
	}
}

func TestADriverThatFailsIsRolledBack(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(*upgraded)
		code   cause.Code
	}{
		"its module is rejected":        {func(u *upgraded) { u.Reject(u.T, two) }, cause.ModuleInitFailed},
		"its devices are not answering": {func(u *upgraded) { u.Mute(u.T, two) }, cause.DriverDoesNotAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpgraded(t)
			u.version = two
			u.settles(one, "")
			previous, target := u.ids(false)
			tc.breaks(u)
			u.fails("swap", u.Swap(t.Context(), target), tc.code)
			u.succeeds("roll back", u.RollBack(t.Context(), previous))
			u.settles(one, tc.code)
			if loaded, _ := u.ids(false); loaded != previous || u.Published() != one {
				t.Errorf("loaded is %s, and %q is ready", loaded, u.Published())
			}
			// It stays so, also after a reboot.
			u.Reboot(t)
			u.restart()
			u.settles(one, tc.code)
			// The next attempt is one.
			u.Reject(t, "")
			u.Mute(t, "")
			u.settles(one, tc.code)
			u.succeeds("swap again", u.Swap(t.Context(), target))
			u.succeeds("validate", u.Validate(t.Context()))
			u.settles(two, "")
		})
	}
}

func TestADriverThatStopsToWorkBeforeItIsValidatedIsRolledBack(t *testing.T) {
	u := newUpgraded(t)
	u.version = two
	u.settles(one, "")
	previous, target := u.ids(false)
	u.succeeds("swap", u.Swap(t.Context(), target))
	u.Mute(t, two)
	u.fails("validate", u.Validate(t.Context()), cause.DriverDoesNotAnswer)
	u.succeeds("roll back", u.RollBack(t.Context(), previous))
	u.settles(one, cause.DriverDoesNotAnswer)
}

func TestADriverInUseStays(t *testing.T) {
	u := newUpgraded(t)
	u.version = two
	u.settles(one, "")
	previous, target := u.ids(false)
	u.Use(t, true)
	u.fails("swap", u.Swap(t.Context(), target), cause.ModuleInUse)
	u.succeeds("roll back", u.RollBack(t.Context(), previous))
	u.settles(one, "")
	if u.Published() != one {
		t.Errorf("%q is ready", u.Published())
	}
}

func TestAnUpgradeThatIsGivenUpGoesBack(t *testing.T) {
	u := newUpgraded(t)
	u.version = two
	u.settles(one, "")
	previous, target := u.ids(false)
	u.succeeds("swap", u.Swap(t.Context(), target))
	u.version = one // somebody puts the version back
	u.fails("swap", u.Swap(t.Context(), target), cause.UpgradeGivenUp)
	u.succeeds("roll back", u.RollBack(t.Context(), previous))
	u.settles(one, "")
}

func TestNobodyElseChangesTheDriverInAnUpgrade(t *testing.T) {
	u := newUpgraded(t)
	u.version = two
	u.busy = "the upgrade is on its way"
	u.Reboot(t)
	u.restart()
	u.settles("", cause.UpgradeInProgress)
	assert.ErrorContains(t, u.Loader.Ready(), "on its way")
}

func TestANodeWithoutADriverLoadsTheDesiredOneAtOnce(t *testing.T) {
	u := newUpgraded(t)
	u.version = two
	u.Reboot(t)
	u.restart()
	if loaded, _ := u.ids(false); loaded != "" {
		t.Errorf("%q is loaded", loaded)
	}
	u.settles(two, "")
	// Unless its upgrade failed before the driver was touched.
	u.version, u.params = one, stack.Params{"nvidia": {loadertest.Param + "=7"}}
	previous, _ := u.ids(false)
	u.instead = func(string) string { return previous }
	u.Reboot(t)
	u.restart()
	u.settles(two, "")
}

func TestTheDriverOfTheHostIsLeftAlone(t *testing.T) {
	u := newUpgraded(t)
	u.version = two
	library := filepath.Join(u.Dir, "host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.")
	payloadtest.Write(t, library+one, string(ldsotest.Library(elf.EM_X86_64, "libnvidia-ml.so.1")), 0o644)
	assert.NilError(t, os.Symlink(filepath.Base(library)+one, library+"1"))
	u.settles(one, "")
	if loaded, target := u.ids(false); loaded != "" || target != "" {
		t.Errorf("an upgrade from %q to %q would begin", loaded, target)
	}
}

func TestTheDriverOfNVIDIAsContainerIsLeftAlone(t *testing.T) {
	u := newUpgraded(t)
	u.version = two
	u.Container(t)
	u.restart()
	u.settles(one, cause.DriverOfOtherContainer)
	if loaded, target := u.ids(false); loaded != "" || target != "" {
		t.Errorf("an upgrade from %q to %q would begin", loaded, target)
	}
}
