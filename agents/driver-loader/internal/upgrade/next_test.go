package upgrade_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/cause"
)

func TestNext(t *testing.T) {
	old := upgrade.Observation{Target: "2", Loaded: "1"}
	with := func(change func(*upgrade.Observation)) upgrade.Observation {
		o := old
		change(&o)
		return o
	}
	manual := upgrade.Default()
	manual.AutoUpgrade = false
	sparing := upgrade.Default()
	sparing.SkipCordoned = true
	// begun is an upgrade with a grant, on a node that is cordoned.
	begun := func(change func(*upgrade.Node)) upgrade.Observation {
		return with(func(o *upgrade.Observation) {
			o.Node.Granted, o.Node.Unschedulable = "2", true
			change(&o.Node)
		})
	}
	var fresh upgrade.Journal
	for name, tc := range map[string]struct {
		j    upgrade.Journal
		o    upgrade.Observation
		p    *upgrade.Policy
		want upgrade.Kind
		to   upgrade.State
	}{
		"another driver is desired":             {j: fresh, o: old, want: upgrade.Move, to: upgrade.Required},
		"the desired driver is loaded":          {j: fresh, o: with(func(o *upgrade.Observation) { o.Loaded = "2" }), want: upgrade.Wait},
		"no driver is loaded":                   {j: fresh, o: with(func(o *upgrade.Observation) { o.Loaded = "" }), want: upgrade.Wait},
		"no driver is desired":                  {j: fresh, o: with(func(o *upgrade.Observation) { o.Target = "" }), want: upgrade.Wait},
		"the node has the skip label":           {j: fresh, o: with(func(o *upgrade.Observation) { o.Node.Skip = true }), want: upgrade.Wait},
		"upgrades are not automatic":            {j: fresh, o: old, p: &manual, want: upgrade.Wait},
		"one is asked for":                      {j: fresh, o: with(func(o *upgrade.Observation) { o.Node.Requested = true }), p: &manual, want: upgrade.Move, to: upgrade.Required},
		"one that was asked for has yielded":    {j: upgrade.Journal{State: upgrade.Required, Target: "2", Requested: true}, o: with(func(o *upgrade.Observation) { o.Node.Granted = "2" }), p: &manual, want: upgrade.Move, to: upgrade.Cordoning},
		"it has no grant":                       {j: upgrade.Journal{State: upgrade.Required, Target: "2"}, o: old, want: upgrade.Wait},
		"it has a grant for another driver":     {j: upgrade.Journal{State: upgrade.Required, Target: "2"}, o: with(func(o *upgrade.Observation) { o.Node.Granted = "1.5" }), want: upgrade.Wait},
		"it waits, and another one is desired":  {j: upgrade.Journal{State: upgrade.Required, Target: "1.5"}, o: with(func(o *upgrade.Observation) { o.Node.Granted = "2" }), want: upgrade.Move, to: upgrade.Required},
		"another one is desired before it ends": {j: upgrade.Journal{State: upgrade.DeletingPod, Target: "1.5"}, o: with(func(o *upgrade.Observation) { o.Node.Granted = "1.5" }), want: upgrade.Move, to: upgrade.Yielding},
		"it is not desired any more":            {j: upgrade.Journal{State: upgrade.Required}, o: with(func(o *upgrade.Observation) { o.Target = "1" }), want: upgrade.Move, to: upgrade.Idle},
		"it failed with this driver":            {j: upgrade.Journal{State: upgrade.Failed, Target: "2"}, o: old, want: upgrade.Wait},
		"it failed, and is asked for again":     {j: upgrade.Journal{State: upgrade.Failed, Target: "2"}, o: with(func(o *upgrade.Observation) { o.Node.Requested = true }), want: upgrade.Move, to: upgrade.Required},
		"it failed with another driver":         {j: upgrade.Journal{State: upgrade.Failed, Target: "1.5"}, o: old, want: upgrade.Move, to: upgrade.Required},
		"it failed, and somebody repaired it":   {j: upgrade.Journal{State: upgrade.Failed, Target: "2"}, o: with(func(o *upgrade.Observation) { o.Loaded = "2" }), want: upgrade.Move, to: upgrade.Done},
		"it failed, and could not be undone":    {j: upgrade.Journal{State: upgrade.Failed, Target: "2", Broken: true}, o: with(func(o *upgrade.Observation) { o.Loaded = "2" }), want: upgrade.Wait},
		"the journal is lost in the upgrade":    {j: fresh, o: with(func(o *upgrade.Observation) { o.Node.Cordoned = true }), want: upgrade.Move, to: upgrade.Yielding},
		"the version is put back":               {j: upgrade.Journal{State: upgrade.DeletingPod}, o: with(func(o *upgrade.Observation) { o.Target = "1"; o.Node.Granted = "2" }), want: upgrade.Move, to: upgrade.Yielding},
		"somebody uncordons the node":           {j: upgrade.Journal{State: upgrade.DeletingPod}, o: with(func(o *upgrade.Observation) { o.Node.Granted = "2"; o.Node.Cordoned = true }), want: upgrade.Cordon},
		"a node that somebody cordoned":         {j: upgrade.Journal{State: upgrade.Uncordoning}, o: with(func(o *upgrade.Observation) { o.Node.Unschedulable = true }), want: upgrade.Move, to: upgrade.Done},
		"a reboot between load and validation":  {j: upgrade.Journal{State: upgrade.Validating, Target: "2"}, o: with(func(o *upgrade.Observation) { o.Loaded = "" }), want: upgrade.Move, to: upgrade.Swapping},
		"the grant is lost before the swap":     {j: upgrade.Journal{State: upgrade.Swapping, Target: "2"}, o: old, want: upgrade.Move, to: upgrade.RollingBackToYield},
		"killed in the swap three times":        {j: upgrade.Journal{State: upgrade.Swapping, Target: "2", Attempts: 3}, o: with(func(o *upgrade.Observation) { o.Node.Granted = "2" }), want: upgrade.Move, to: upgrade.RollingBack},
		"another driver is desired in the swap": {j: upgrade.Journal{State: upgrade.Swapping, Target: "1.5"}, o: with(func(o *upgrade.Observation) { o.Node.Granted = "2" }), want: upgrade.Move, to: upgrade.RollingBackToYield},
		"there is no selector of jobs to await": {j: upgrade.Journal{State: upgrade.WaitingJobs}, o: with(func(o *upgrade.Observation) { o.Node.Granted = "2"; o.Node.Unschedulable = true }), want: upgrade.Move, to: upgrade.DeletingPod},
		"DaemonSets hold the driver":            {j: upgrade.Journal{State: upgrade.DeletingPod}, o: begun(func(n *upgrade.Node) { n.Pausable = true }), want: upgrade.Pause},
		"DaemonSets hold it while jobs run":     {j: upgrade.Journal{State: upgrade.WaitingJobs}, o: begun(func(n *upgrade.Node) { n.Pausable = true }), want: upgrade.Move, to: upgrade.DeletingPod},
		"DaemonSets are paused":                 {j: upgrade.Journal{State: upgrade.DeletingPod}, o: begun(func(n *upgrade.Node) { n.Paused = true }), want: upgrade.EvictPods},
		"the pause ends with the upgrade":       {j: upgrade.Journal{State: upgrade.Uncordoning}, o: begun(func(n *upgrade.Node) { n.Paused, n.Cordoned = true, true }), want: upgrade.Resume},
		"the pause ends with a failure":         {j: upgrade.Journal{State: upgrade.Restoring}, o: begun(func(n *upgrade.Node) { n.Paused = true }), want: upgrade.Resume},
		"the journal is lost in the pause":      {j: fresh, o: with(func(o *upgrade.Observation) { o.Node.Paused = true }), want: upgrade.Move, to: upgrade.Yielding},
		"a cordoned node is left alone":         {j: upgrade.Journal{State: upgrade.Required, Target: "2"}, o: begun(func(n *upgrade.Node) { n.Granted = "" }), p: &sparing, want: upgrade.Wait},
		"a cordoned node is upgraded":           {j: upgrade.Journal{State: upgrade.Required, Target: "2"}, o: begun(func(*upgrade.Node) {}), want: upgrade.Move, to: upgrade.Cordoning},
		"a cordon after the grant is too late":  {j: upgrade.Journal{State: upgrade.Required, Target: "2"}, o: begun(func(*upgrade.Node) {}), p: &sparing, want: upgrade.Move, to: upgrade.Cordoning},
	} {
		t.Run(name, func(t *testing.T) {
			p := upgrade.Default()
			if tc.p != nil {
				p = *tc.p
			}
			if got := upgrade.Next(tc.j, tc.o, p); got.Kind != tc.want || got.To != tc.to {
				t.Errorf("Next() = %+v, want %s %s", got, tc.want, tc.to)
			}
		})
	}
}

func TestAnAPIServerThatDoesNotAnswerFailsNoUpgrade(t *testing.T) {
	j := upgrade.Journal{State: upgrade.DeletingPod, Target: "2"}
	gone := &cause.Cause{Code: cause.TemporaryFailure, Text: "no answer"}
	got := upgrade.After(j, upgrade.Observation{}, upgrade.Action{Kind: upgrade.EvictPods}, upgrade.Default(), upgrade.Result{Failed: gone})
	if got.State != upgrade.DeletingPod || got.Cause != gone {
		t.Errorf("After() = %+v", got)
	}
}

func TestTheCauseOfAFailedRollBackNamesBoth(t *testing.T) {
	j := upgrade.Journal{State: upgrade.RollingBack, Attempts: 3, Cause: &cause.Cause{Subject: "driver 2", Text: "rejected"}}
	got := upgrade.After(j, upgrade.Observation{}, upgrade.Action{Kind: upgrade.RollBack}, upgrade.Default(), upgrade.Result{Failed: &cause.Cause{Subject: "driver 1", Text: "gone"}})
	if want := "driver 2: rejected; the rollback to the previous driver failed too: driver 1: gone"; got.State != upgrade.Restoring || got.Cause.Error() != want {
		t.Errorf("After() = %+v: %v", got, got.Cause)
	}
}

func TestParsePolicy(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"the values of NVIDIA's chart": {in: `{"autoUpgrade": true, "maxParallelUpgrades": 1, "maxUnavailable": "25%", "waitForCompletion": {"timeoutSeconds": 0, "podSelector": ""},
			"gpuPodDeletion": {"force": false, "timeoutSeconds": 300, "deleteEmptyDir": false},
			"drain": {"enable": false, "force": false, "podSelector": "", "timeoutSeconds": 300, "deleteEmptyDir": false}}`},
		"a key that does not exist":      {in: `{"maxParalel": 1}`, want: `read upgradePolicy: json: unknown field "maxParalel"`},
		"a share that is none":           {in: `{"maxUnavailable": "many"}`, want: `upgradePolicy.maxUnavailable is "many": use a number of nodes such as 2, or a percentage such as 25%`},
		"a selector that is none":        {in: `{"drain": {"podSelector": "a in"}}`, want: `upgradePolicy.drain.podSelector is "a in", which is not a label selector: `},
		"a share that is a fraction":     {in: `{"maxUnavailable": 0.5}`, want: `upgradePolicy.maxUnavailable is "0.5": use a number of nodes such as 2, or a percentage such as 25%`},
		"a number below zero":            {in: `{"drain": {"timeoutSeconds": -1}}`, want: `upgradePolicy.drain.timeoutSeconds is -1: use 0 to 2147483647`},
		"something else than an object":  {in: `[]`, want: "cannot unmarshal"},
		"more than any policy has":       {in: strings.Repeat(" ", 70000) + "{}", want: "more than 65536 bytes"},
		"a number too large for any int": {in: `{"maxFailures": 99999999999999999999}`, want: "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := upgrade.ParsePolicy([]byte(tc.in))
			switch {
			case tc.want == "" && (err != nil || got != upgrade.Default()):
				t.Errorf("ParsePolicy() = %+v, %v, want the default", got, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("ParsePolicy() = %v, want %q", err, tc.want)
			}
		})
	}
	p, err := upgrade.ParsePolicy([]byte(`{"podDeletion": {"force": true}, "maxUnavailable": 3}`))
	if err != nil || !p.PodDeletion.Force || p.PodDeletion.TimeoutSeconds != 300 || p.MaxUnavailable != "3" {
		t.Errorf("the names of NVIDIA's API give %+v, %v", p, err)
	}
}

func TestAmount(t *testing.T) {
	for a, want := range map[upgrade.Amount]int{"25%": 3, "100%": 10, "0%": 1, "1%": 1, "4": 4, "0": 1} {
		if got := a.Of(10); got != want {
			t.Errorf("%s of 10 nodes is %d, want %d", a, got, want)
		}
	}
}

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "upgrade.json")
	if j, err := upgrade.ReadJournal(path); err != nil || j.State != upgrade.Idle {
		t.Errorf("without a file, ReadJournal() = %+v, %v", j, err)
	}
	want := upgrade.Journal{State: upgrade.Swapping, Target: "2", Previous: "1", Attempts: 2, Since: time.Unix(1e9, 0).UTC(), Cause: &cause.Cause{Text: "x"}}
	assert.NilError(t, want.Write(path))
	got, err := upgrade.ReadJournal(path)
	if err != nil || got.State != want.State || got.Target != "2" || got.Previous != "1" || got.Attempts != 2 || !got.Since.Equal(want.Since) || *got.Cause != *want.Cause {
		t.Errorf("ReadJournal() = %+v, %v, want %+v", got, err, want)
	}
	for name, text := range map[string]string{"cut off": `{"state":"pod-re`, "of a state that does not exist": `{"state":"lost"}`} {
		assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := upgrade.ReadJournal(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a journal that is %s: %v", name, err)
		}
	}
	assert.NilError(t, (upgrade.Journal{}).Write(path))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a node at rest has a journal: %v", err)
	}
}

func TestLabelsAreThoseOfNVIDIA(t *testing.T) {
	for state, want := range map[upgrade.State]string{
		upgrade.RollingBack: "upgrade-failed", upgrade.Restoring: "upgrade-failed", upgrade.Yielding: "upgrade-required",
		upgrade.RollingBackToYield: "upgrade-required", upgrade.Swapping: "pod-restart-required", upgrade.Idle: "",
	} {
		if got := state.Label(); got != want {
			t.Errorf("%q has the label %q, want %q", state, got, want)
		}
	}
}

func TestTheDriverOfANodeThatHasNone(t *testing.T) {
	for name, tc := range map[string]struct {
		j    upgrade.Journal
		want string
	}{
		"at first":                        {want: "2"},
		"in the upgrade":                  {j: upgrade.Journal{State: upgrade.Swapping, Target: "2", Previous: "1"}, want: "2"},
		"on its way back":                 {j: upgrade.Journal{State: upgrade.RollingBack, Target: "2", Previous: "1"}, want: "1"},
		"after the upgrade failed":        {j: upgrade.Journal{State: upgrade.Failed, Target: "2", Previous: "1"}, want: "1"},
		"after one to another driver":     {j: upgrade.Journal{State: upgrade.Failed, Target: "1.5", Previous: "1"}, want: "2"},
		"after the upgrade had succeeded": {j: upgrade.Journal{State: upgrade.Done, Target: "2", Previous: "1"}, want: "2"},
	} {
		if got := tc.j.Driver("2"); got != tc.want {
			t.Errorf("%s, a node gets driver %s, want %s", name, got, tc.want)
		}
	}
}

func TestCausesOfWaitingNodes(t *testing.T) {
	waiting := upgrade.Journal{State: upgrade.Required, Target: "2"}
	halted := upgrade.Observation{Target: "2", Loaded: "1"}
	halted.Waiting.Halted = map[string][]string{"2": {"n1"}}
	killed := upgrade.Observation{Target: "2", Loaded: "1"}
	killed.Node.Granted = "2"
	for want, tc := range map[cause.Code]struct {
		j upgrade.Journal
		o upgrade.Observation
	}{
		cause.WaitingForUpgradeSlot: {waiting, upgrade.Observation{Target: "2", Loaded: "1"}},
		cause.UpgradeHalted:         {waiting, halted},
		cause.UpgradeInterrupted:    {upgrade.Journal{State: upgrade.Swapping, Target: "2", Attempts: 3}, killed},
	} {
		if a := upgrade.Next(tc.j, tc.o, upgrade.Default()); a.Cause == nil || a.Cause.Code != want || a.Cause.Text == "" {
			t.Errorf("%s: %+v", want, a)
		}
	}
}
