package draapp

import (
	"errors"
	"log/slog"
	"testing"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/reconcile"
)

// Feature discovery waits for the fact before it calls the node ready.
func TestTheFactHoldsWhileThePluginIsReady(t *testing.T) {
	dir := contract.Dir{Root: t.TempDir()}
	log := slog.New(slog.DiscardHandler)
	k := &kubelet{notReady: reconcile.NewStatus(errUnregistered), fact: dir.NewKeeper(dir.Path(contract.DRAReady), log), log: log}
	state := inventory.State{Node: gputest.Node(gputest.A100, 1)}
	for _, missing := range []error{errUnregistered, nil, nil, errors.New("no driver"), nil, errUnregistered} {
		k.updateReady(state, missing)
		f := dir.Read(contract.DRAReady)
		if valid := f.State == contract.Valid; valid != (missing == nil) {
			t.Errorf("the fact is %s (%s) while %v is missing", f.State, f.Reason, missing)
		}
		if missing == nil && (f.Stamp.Writer != "dra-plugin" || f.Stamp.DriverVersion != state.Node.Driver.Version || !f.Stamp.Held) {
			t.Errorf("the fact has the stamp %+v", f.Stamp)
		}
	}
}
