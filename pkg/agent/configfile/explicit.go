package configfile

import (
	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/config"
)

// Explicit returns what flags and environment set, of the flags that the agent
// has: they have the same name in all agents.
func Explicit(c *cli.Context) config.Explicit {
	return config.Explicit{
		MIGStrategy:         agent.SetText[config.MIGStrategy](c, "mig-strategy"),
		FailOnInitError:     agent.SetBool(c, "fail-on-init-error"),
		DriverRoot:          agent.SetText[string](c, "driver-root"),
		DriverRootCtrPath:   agent.SetText[string](c, "driver-root-ctr-path"),
		DevRoot:             agent.SetText[string](c, "dev-root"),
		ListStrategies:      agent.SetTexts[config.ListStrategy](c, "device-list-strategy"),
		IDStrategy:          agent.SetText[config.IDStrategy](c, "device-id-strategy"),
		PassDeviceSpecs:     agent.SetBool(c, "pass-device-specs"),
		CDIAnnotationPrefix: agent.SetText[string](c, "cdi-annotation-prefix"),
		HookPath:            agent.SetText[string](c, "nvidia-cdi-hook-path"),
		MPSRoot:             agent.SetText[string](c, "mps-root"),
		Policy:              agent.SetText[config.Policy](c, "shared-devices-allocation-policy"),
		Discovery:           agent.SetText[config.Discovery](c, "device-discovery-strategy"),
		GDS:                 agent.SetBool(c, "gds-enabled"),
		MOFED:               agent.SetBool(c, "mofed-enabled"),
		GDRCopy:             agent.SetBool(c, "gdrcopy-enabled"),
		IMEXChannels:        agent.SetInts(c, "imex-channel-ids"),
		IMEXRequired:        agent.SetBool(c, "imex-required"),
		OneShot:             agent.SetBool(c, "oneshot"),
		NoTimestamp:         agent.SetBool(c, "no-timestamp"),
		SleepInterval:       agent.SetText[string](c, "sleep-interval"),
		OutputFile:          agent.SetText[string](c, "output-file"),
		MachineTypeFile:     agent.SetText[string](c, "machine-type-file"),
		UseNodeFeatureAPI:   agent.SetBool(c, "use-node-feature-api"),
		KubeletSocket:       agent.SetText[string](c, "kubelet-socket"),
		CDIRoot:             agent.SetText[string](c, "cdi-root"),
		CDIFeatureFlags:     agent.SetTexts[string](c, "cdi-feature-flags"),
		CDIDisableHooks:     agent.SetTexts[string](c, "cdi-disable-hooks"),
		DisableHealthChecks: agent.SetText[string](c, "disable-healthchecks"),
		EnableHealthChecks:  agent.SetText[string](c, "enable-healthchecks"),
		ResourceConfig:      agent.SetText[string](c, "resource-config"),
	}
}
