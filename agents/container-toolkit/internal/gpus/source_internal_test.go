package gpus

import (
	"os"
	"path/filepath"
	"testing"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu/simtest"
)

func TestLook(t *testing.T) {
	n := simtest.New(t, "--gpus=2")
	n.Run("mig mode", "0", "on")
	n.Run("reset", "0")
	root := driverproc.Root(filepath.Join(n.Root, "proc"))
	if _, err := os.Stat(string(root)); err != nil {
		t.Fatal(err)
	}
	last := observe(root, driverState{})
	if len(last.minors) != 2 || last.version == "" || !last.equal(observe(root, last)) {
		t.Errorf("the driver shows %+v", last)
	}
	for _, change := range [][]string{
		{"mig create", "0", "3g.20gb"},
		{"mig create", "0", "1c.3g.20gb"},
		{"mig destroy", "0", "all"},
		{"unplug", "1"},
		{"plug"},
		{"set", "driver=off"},
		{"set", "driver=on"},
	} {
		n.Run(change...)
		now := observe(root, last)
		if now.equal(last) {
			t.Errorf("%q changes nothing: %+v", change, now)
		}
		last = now
	}
}

func BenchmarkLook(b *testing.B) {
	n := simtest.New(b, "--gpus=8")
	root := driverproc.Root(filepath.Join(n.Root, "proc"))
	last := observe(root, driverState{})
	for b.Loop() {
		last = observe(root, last)
	}
}
