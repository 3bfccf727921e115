package manager

import "outrigger.dev/pkg/contract"

// KeyConfig is the key of the fact mig-ready with the config that is in effect.
const KeyConfig = "OUTRIGGER_MIG_CONFIG"

// KeyLoaded is the key of the fact mig-ready with Config.Loaded at that time: a driver that is loaded again
// may have lost the layouts.
const KeyLoaded = "OUTRIGGER_MIG_DRIVER_LOADED"

// publishSettled publishes the fact that the layouts are as the config asks.
func (m *Manager) publishSettled(config string) {
	m.fact.Publish(contract.Record{
		Writer: Name, DriverVersion: m.cfg.DriverVersion(), Values: map[string]string{KeyConfig: config, KeyLoaded: m.loaded},
	})
}

// reloaded reports whether the fact is about another loading of the driver than the current one.
func (m *Manager) reloaded() bool {
	of := m.cfg.Contract.Read(contract.MIGReady).Values[KeyLoaded]
	return of != "" && of != m.loaded
}
