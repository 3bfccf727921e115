package manager

import "outrigger.dev/pkg/contract"

// KeyConfig is the key in the fact mig-ready for the config that is in effect.
const KeyConfig = "OUTRIGGER_MIG_CONFIG"

// KeyLoaded is the key in the fact mig-ready for the value of Config.Loaded when the fact was
// written. A driver that was loaded again may have lost the layouts.
const KeyLoaded = "OUTRIGGER_MIG_DRIVER_LOADED"

// publishSettled publishes the fact that the layouts match a config.
func (m *Manager) publishSettled(config string) {
	m.fact.Publish(contract.Record{
		Writer: Name, DriverVersion: m.cfg.DriverVersion(), Values: map[string]string{KeyConfig: config, KeyLoaded: m.loaded},
	})
}

// reloaded reports whether the driver was loaded again since the fact was written.
func (m *Manager) reloaded() bool {
	of := m.cfg.Contract.Read(contract.MIGReady).Values[KeyLoaded]
	return of != "" && of != m.loaded
}
