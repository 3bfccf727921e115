package nodestate

import (
	"maps"
	"testing"

	"outrigger.dev/pkg/kube/apitest"
)

// TestAPauseIsReverted looks at the value of a label before, during and after a pause, and if another agent pauses the
// label in between.
func TestAPauseIsReverted(t *testing.T) {
	driver, mig := Pause{Value: PausedForDriverUpgrade}, Pause{Value: PausedForMIGChange}
	const long = "a-value-that-is-so-long-that-no-pause-fits-behind-it-any-more"
	for before, during := range map[string]string{
		"true": "paused-for-driver-upgrade", "false": "false", "": "", "x": "x_paused-for-driver-upgrade", "pre-installed": "pre-installed_paused-for-driver-upgrade",
		"paused-for-mig-change": "paused-for-mig-change_paused-for-driver-upgrade", long: long,
	} {
		if got := driver.paused(before); got != during {
			t.Errorf("%q is paused as %q, want %q", before, got, during)
		}
		if got := driver.paused(during); got != during {
			t.Errorf("%q is paused again as %q", during, got)
		}
		if got := driver.resumed(during); got != before {
			t.Errorf("%q is resumed as %q, want %q", during, got, before)
		}
		if got := driver.resumed(before); got != before {
			t.Errorf("%q is resumed as %q without a pause", before, got)
		}
		if before == "paused-for-mig-change" {
			continue
		}
		both := mig.paused(during)
		if len(both) > maxValue {
			t.Errorf("%q is longer than the value of a label", both)
		}
		if got := driver.resumed(mig.resumed(both)); got != before {
			t.Errorf("%q, paused by two agents, is resumed as %q", before, got)
		}
		if got := mig.resumed(driver.resumed(both)); got != before {
			t.Errorf("%q, paused by two agents, is resumed as %q in the order of the pauses", before, got)
		}
	}
}

// TestPause pauses the labels of a Node at an API server, and reverts the pause in another process.
func TestPause(t *testing.T) {
	const client, dcgm, own, driver = "nvidia.com/gpu.deploy.client", "nvidia.com/gpu.deploy.dcgm", "example.org/monitor", "nvidia.com/gpu.deploy.driver"
	const record = "outrigger.dev/paused"
	before := map[string]string{client: "true", dcgm: "false", own: "true", driver: "true"}
	s := apitest.New(t, maps.Clone(before))
	start := func() *Writer {
		w := writer(t, s)
		w.cfg.Pause = Pause{Value: PausedForDriverUpgrade, Label: own, Annotation: record}
		return w
	}
	w := start()
	n := read(t, w)
	if w.Paused(n) || !w.Pausable(n) {
		t.Errorf("before: paused %v, pausable %v", w.Paused(n), w.Pausable(n))
	}
	if err := w.Resume(t.Context(), n); err != nil || read(t, w).Version != n.Version {
		t.Errorf("a resume without a pause writes the Node: %v", err)
	}
	if err := w.Pause(t.Context(), n, "x"); err != nil {
		t.Fatal(err)
	}
	during := map[string]string{client: PausedForDriverUpgrade, dcgm: "false", own: PausedForDriverUpgrade, driver: "true"}
	want(t, during, read(t, w).Labels)
	n = read(t, w)
	want(t, map[string]string{record: "x"}, n.Annotations)
	s.Update("kubectl", func(n *apitest.Node) { n.Labels["zone"] = "a" })
	if err := w.Resume(t.Context(), n); err == nil {
		t.Error("a resume of an outdated Node succeeds")
	}
	before["zone"] = "a"

	w = start() // the process was killed
	n = read(t, w)
	if !w.Paused(n) || w.Pausable(n) {
		t.Errorf("during: paused %v, pausable %v", w.Paused(n), w.Pausable(n))
	}
	if err := w.Resume(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	want(t, before, read(t, w).Labels)
	if n = read(t, w); len(n.Annotations) > 0 {
		t.Errorf("the annotations %v are left", n.Annotations)
	}
}

// TestAPauseOfOthersStays: NVIDIA's managers write the same values.
func TestAPauseOfOthersStays(t *testing.T) {
	for name, revert := range map[string]func(*Writer) error{
		"resume":   func(w *Writer) error { return w.Resume(t.Context(), read(t, w)) },
		"withdraw": func(w *Writer) error { return w.Withdraw(t.Context(), Published{Pause: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			labels := map[string]string{"nvidia.com/gpu.deploy.client": PausedForDriverUpgrade, "nvidia.com/gpu.deploy.dcgm": "x_" + PausedForDriverUpgrade}
			w := writer(t, apitest.New(t, maps.Clone(labels)))
			w.cfg.Pause = Pause{Value: PausedForDriverUpgrade, Annotation: "outrigger.dev/paused"}
			if err := w.Pause(t.Context(), read(t, w), "x"); err != nil || w.Pausable(read(t, w)) || w.Paused(read(t, w)) {
				t.Errorf("the pause of others is a pause of this writer: %v", err)
			}
			if err := revert(w); err != nil {
				t.Fatal(err)
			}
			want(t, labels, read(t, w).Labels)
		})
	}
}

// TestAWithdrawnPauseEnds: the labels are not the writer's, so it restores them whoever has set them, and removes none.
func TestAWithdrawnPauseEnds(t *testing.T) {
	const client, dcgm, nvsm, own = "nvidia.com/gpu.deploy.client", "nvidia.com/gpu.deploy.dcgm", "nvidia.com/gpu.deploy.nvsm", "example.org/monitor"
	for name, prepare := range map[string]func(*Writer) error{
		"there was no pause": func(*Writer) error { return nil },
		"in a pause":         func(w *Writer) error { return w.Pause(t.Context(), read(t, w), "x") },
		"after a pause": func(w *Writer) error {
			if err := w.Pause(t.Context(), read(t, w), "x"); err != nil {
				return err
			}
			return w.Resume(t.Context(), read(t, w))
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := map[string]string{client: "true", dcgm: "false", nvsm: "true", own: "true", "nvidia.com/gpu.deploy.dcgm-exporter": "x"}
			w := writer(t, apitest.New(t, maps.Clone(before)))
			w.cfg.Pause = Pause{Value: PausedForMIGChange, Label: own, Annotation: "outrigger.dev/paused"}
			if err := prepare(w); err != nil {
				t.Fatal(err)
			}
			if err := w.Withdraw(t.Context(), Published{Pause: true}); err != nil {
				t.Fatal(err)
			}
			want(t, before, read(t, w).Labels)
		})
	}
}
