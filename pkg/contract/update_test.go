package contract_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"outrigger.dev/pkg/contract"
)

// count adds one to the number in a fact.
func count(f contract.Fact) (*contract.Record, error) {
	n, _ := strconv.Atoi(f.Values["N"])
	return &contract.Record{Values: map[string]string{"N": strconv.Itoa(n + 1)}}, nil
}

// No update of a process is lost.
func TestUpdatesOfSeveralAgents(t *testing.T) {
	d := newDir(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				if err := d.Update(contract.GPUIndex, "agent", count); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if f := d.Read(contract.GPUIndex); f.State != contract.Valid || f.Values["N"] != "40" || f.Stamp.Writer != "agent" {
		t.Errorf("the fact is %+v, want 40", f)
	}
}

func TestUpdate(t *testing.T) {
	d := newDir(t)
	refused := errors.New("no")
	if err := d.Update(contract.GPUIndex, "agent", func(contract.Fact) (*contract.Record, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("an update that fails returns %v", err)
	}
	must(t, d.Update(contract.GPUIndex, "agent", func(contract.Fact) (*contract.Record, error) { return nil, nil }))
	if f := d.Read(contract.GPUIndex); f.State != contract.Missing {
		t.Errorf("an update without a result writes %+v", f)
	}
	kept := filepath.Join(t.TempDir(), "kept")
	for n := 1; n < 3; n++ {
		must(t, d.UpdateFile(kept, "agent", count))
		if f := d.ReadFile(kept); f.Values["N"] != fmt.Sprint(n) {
			t.Errorf("update %d of a file outside the run root: %+v", n, f)
		}
	}
	must(t, os.RemoveAll(d.Root))
	if err := d.Update(contract.GPUIndex, "agent", count); !errors.Is(err, contract.ErrNoRunRoot) {
		t.Errorf("without a run root: %v", err)
	}
}

// TestNoRunRoot writes with an empty path of the run root. Nothing is written into the working directory.
func TestNoRunRoot(t *testing.T) {
	t.Chdir(t.TempDir())
	var none contract.Dir
	update := none.Update(contract.GPUIndex, "agent", func(contract.Fact) (*contract.Record, error) { return &contract.Record{}, nil })
	for name, err := range map[string]error{"write": none.Write(contract.DriverReady, contract.Record{}), "update": update} {
		if !errors.Is(err, contract.ErrNoRunRoot) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("%v, %v is left", left, err)
	}
}
