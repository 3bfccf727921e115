package reader_test

import (
	"testing"

	"outrigger.dev/pkg/gpu"
)

// A load of the driver starts the energy counter again. A GPU that no snapshot has shown has none.
func TestEnergy(t *testing.T) {
	s := newSim(t, "--gpus=1")
	s.run("set", "0.power=700000")
	read := func() uint64 {
		t.Helper()
		r := s.source(nil)
		defer r.Close()
		n, err := r.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mJ, err := r.Energy(t.Context(), n.GPUs[0].UUID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Energy(t.Context(), gpu.UUID("GPU-x")); err == nil {
			t.Error("a GPU that does not exist has an energy counter")
		}
		return mJ
	}
	before := read()
	if before == 0 {
		t.Fatal("the GPU has used no energy")
	}
	s.run("set", "0.power=0")
	s.run("set", "driver=off")
	s.run("set", "driver=on")
	if after := read(); after >= before {
		t.Errorf("the counter is %d mJ after a load of the driver, and %d before", after, before)
	}
	s.run("set", "nvmlDeviceGetTotalEnergyConsumption.return=3")
	r := s.source(nil)
	defer r.Close()
	n, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Energy(t.Context(), n.GPUs[0].UUID); err == nil {
		t.Error("a GPU without the counter has one")
	}
}
