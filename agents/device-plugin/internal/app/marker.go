package app

import (
	"log/slog"

	"outrigger.dev/agents/device-plugin/internal/plugin"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// marker publishes the fact plugin-ready while the devices are registered and listed.
type marker struct{ *contract.Keeper }

var _ plugin.Marker = marker{}

func newMarker(d contract.Dir, log *slog.Logger) marker {
	return marker{d.NewKeeper(d.Path(contract.PluginReady), log)}
}

// Ready publishes the fact.
func (m marker) Ready(n *gpu.Node) {
	m.Publish(contract.Record{Writer: name, DriverVersion: n.Driver.Version})
}

// NotReady withdraws the fact.
func (m marker) NotReady() { m.Withdraw() }
