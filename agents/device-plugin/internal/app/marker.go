package app

import (
	"errors"
	"log/slog"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// marker keeps the contract's plugin-ready. It is held while the devices are
// registered and listed, so that it dies with this process.
type marker struct {
	dir  contract.Dir
	log  *slog.Logger
	held *contract.Held
	// alone is set once it is known that there is no folder for the contract.
	alone bool
}

// Ready publishes the fact. Without a run root the plugin works alone, which
// is told once.
func (m *marker) Ready(n *gpu.Node) error {
	if m.held != nil || m.alone {
		return nil
	}
	held, err := m.dir.Hold(contract.PluginReady, contract.Record{Writer: name, DriverVersion: n.Driver.Version})
	if errors.Is(err, contract.ErrNoRunRoot) {
		m.alone = true
		m.log.Info("readiness is not told to other agents", "err", err)
		return nil
	}
	m.held = held
	return err
}

// NotReady withdraws the fact.
func (m *marker) NotReady() error {
	held := m.held
	m.held = nil
	return held.Release()
}
