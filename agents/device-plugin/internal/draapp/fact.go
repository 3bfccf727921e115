package draapp

import (
	"log/slog"

	"outrigger.dev/pkg/contract"
)

// fact is dra-ready, held while it is published.
type fact struct {
	dir  contract.Dir
	log  *slog.Logger
	held *contract.Held
}

// Publish publishes the fact.
func (f *fact) Publish(r contract.Record) {
	held, err := f.dir.Hold(contract.DRAReady, r)
	if err != nil {
		f.log.Warn("cannot publish readiness to other agents", "fact", contract.DRAReady, "err", err)
	}
	f.held = held
}

// Withdraw removes the fact.
func (f *fact) Withdraw() {
	if err := f.held.Release(); err != nil {
		f.log.Error("cannot withdraw readiness, other agents may see it until this process ends", "fact", contract.DRAReady, "err", err)
	}
	f.held = nil
}
