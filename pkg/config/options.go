package config

import (
	"slices"
	"time"

	"outrigger.dev/pkg/cmdline/category"
)

// Options returns all options.
func Options() []Option {
	return slices.Concat(DriverOptions(), DeviceOptions(), PluginOptions(), GFDOptions())
}

// DriverOptions returns the options that locate the driver. They have the flags of agent.Host,
// which agents without a config file also have.
func DriverOptions() []Option {
	return []Option{
		{Name: "driver-root", Key: "flags.nvidiaDriverRoot", Restart: true, field: valueField(path(), func(c *Config) *string { return &c.Driver.Root })},
		{Name: "driver-root-ctr-path", Key: "flags.plugin.containerDriverRoot", Restart: true, field: valueField(path(), func(c *Config) *string { return &c.Driver.CtrRoot })},
		{Name: "dev-root", Key: "flags.nvidiaDevRoot", Restart: true, field: valueField(optionalPath(), func(c *Config) *string { return &c.Driver.DevRoot })},
	}
}

// DeviceOptions returns the options that decide which devices exist. All agents that read the
// config file have them.
func DeviceOptions() []Option {
	return []Option{
		{
			Name: "mig-strategy", Variables: []string{"MIG_STRATEGY"}, Key: "flags.migStrategy", Category: category.Resources,
			Usage: "`STRATEGY` for MIG devices: none (advertise whole GPUs only), single (advertise MIG devices as nvidia.com/gpu) or mixed (advertise them as nvidia.com/mig-<profile>)",
			field: valueField(enum(migStrategies()), func(c *Config) *MIGStrategy { return &c.MIGStrategy }),
		},
		{
			Name: "resource-config", Variables: []string{"RESOURCE_CONFIG", "NVIDIA_DRIVER_RESOURCE_CONFIG"}, Category: category.Resources,
			Usage: "comma-separated `LIST` of original[:new[:replicas]] that renames and shares devices, for example gpu:sharedgpu:4; replicas -1 means one for each 1000 MiB of memory",
			// Load turns the value into Sharing.
			field: field{},
		},
		{
			Name: "device-discovery-strategy", Variables: []string{"DEVICE_DISCOVERY_STRATEGY"}, Key: "flags.deviceDiscoveryStrategy", Category: category.Node,
			Usage: "`STRATEGY` for the discovery of GPUs: auto or nvml, which do the same",
			field: valueField(discovery(), func(c *Config) *Discovery { return &c.Discovery }),
		},
		{
			Name: "fail-on-init-error", Variables: []string{"FAIL_ON_INIT_ERROR"}, Key: "flags.failOnInitError", Category: category.Node,
			Usage: "exit with an error if the GPUs cannot be used at startup, instead of waiting for them",
			field: valueField(boolean(), func(c *Config) *bool { return &c.FailOnInitError }),
		},
	}
}

// PluginOptions returns the options that only the device plugin has.
func PluginOptions() []Option {
	return slices.Concat(policyOptions(), answerOptions(), CDIOptions(), specOptions())
}

// policyOptions returns the options for advertising and choosing devices.
func policyOptions() []Option {
	return []Option{
		{
			Name: "shared-devices-allocation-policy", Variables: []string{"SHARED_DEVICES_ALLOCATION_POLICY"}, Key: "flags.plugin.sharedDevicesAllocationPolicy", Category: category.Resources,
			Usage: "`POLICY` that chooses among shared devices and MIG devices: distributed (least used first), packed (most used first) or spread (different GPUs for one request, least used first); spread is the default with --resource-config",
			field: valueField(enum(policies()), func(c *Config) *Policy { return &c.Policy }),
		},
		{
			Name: "mps-root", Variables: []string{"MPS_ROOT"}, Key: "flags.mpsRoot", Restart: true, Category: category.Resources,
			Usage: "`FOLDER` on the host for the pipes and logs of MPS control daemons",
			field: valueField(optionalPath(), func(c *Config) *string { return &c.MPSRoot }),
		},
		{
			Name: "disable-healthchecks", Variables: []string{"DP_DISABLE_HEALTHCHECKS"}, Category: category.Health,
			Usage: "comma-separated `XIDS` to ignore, in addition to the XIDs that applications cause; all means every XID",
			field: valueField(anyText(), func(c *Config) *string { return &c.HealthChecks.Disable }),
		},
		{
			Name: "enable-healthchecks", Variables: []string{"DP_ENABLE_HEALTHCHECKS"}, Category: category.Health,
			Usage: "comma-separated `XIDS` that make a device unhealthy although they are ignored by default; all means every XID",
			field: valueField(anyText(), func(c *Config) *string { return &c.HealthChecks.Enable }),
		},
		{
			Name: "kubelet-socket", Variables: []string{"KUBELET_SOCKET"}, Restart: true, Category: category.Kubernetes,
			Usage: "registration `SOCKET` of the kubelet; the plugin creates its own sockets in the same folder; if empty, it serves without registering",
			field: kubeletSocket(),
		},
	}
}

// answerOptions returns the options for the answers to Allocate, which give containers their
// devices.
func answerOptions() []Option {
	return []Option{
		{
			Name: "device-list-strategy", Variables: []string{"DEVICE_LIST_STRATEGY"}, Key: "flags.plugin.deviceListStrategy", Category: category.Containers,
			Usage: "`STRATEGIES` that pass GPUs to the container runtime: one or more of envvar, volume-mounts, cdi-annotations, cdi-cri",
			field: listField(nonEmptyEnum(listStrategies()), func(c *Config) *[]ListStrategy { return &c.ListStrategies }),
		},
		{
			Name: "default-device-list-strategy", Variables: []string{"DEFAULT_DEVICE_LIST_STRATEGY"}, Default: true, Category: category.Containers,
			Usage: "`STRATEGIES` to use if neither --device-list-strategy nor the config file sets any",
			field: defaultOf(listField(nonEmptyEnum(listStrategies()), func(c *Config) *[]ListStrategy { return &c.ListStrategies })),
		},
		{
			Name: "device-id-strategy", Variables: []string{"DEVICE_ID_STRATEGY"}, Key: "flags.plugin.deviceIDStrategy", Category: category.Containers,
			Usage: "`STRATEGY` that names GPUs to the container runtime: uuid or index",
			field: valueField(enum(idStrategies()), func(c *Config) *IDStrategy { return &c.IDStrategy }),
		},
		{
			Name: "pass-device-specs", Variables: []string{"PASS_DEVICE_SPECS"}, Key: "flags.plugin.passDeviceSpecs", Category: category.Containers,
			Usage: "also pass the device nodes of GPUs to the kubelet; required with the static CPU manager policy, unless CDI is used",
			field: valueField(boolean(), func(c *Config) *bool { return &c.PassDeviceSpecs }),
		},
		{
			Name: "gds-enabled", Variables: []string{"GDS_ENABLED"}, Key: "flags.gdsEnabled", Category: category.Containers,
			Usage: "give each container with a GPU the devices of GPUDirect Storage",
			field: valueField(boolean(), func(c *Config) *bool { return &c.GDS }),
		},
		{
			Name: "mofed-enabled", Variables: []string{"MOFED_ENABLED"}, Key: "flags.mofedEnabled", Category: category.Containers,
			Usage: "give each container with a GPU the InfiniBand devices of the node",
			field: valueField(boolean(), func(c *Config) *bool { return &c.MOFED }),
		},
		{
			Name: "gdrcopy-enabled", Variables: []string{"GDRCOPY_ENABLED"}, Key: "flags.gdrcopyEnabled", Category: category.Containers,
			Usage: "give each container with a GPU the device of GDRCopy",
			field: valueField(boolean(), func(c *Config) *bool { return &c.GDRCopy }),
		},
		{
			Name: "imex-channel-ids", Variables: []string{"IMEX_CHANNEL_IDS"}, Key: "imex.channelIDs", Category: category.Containers,
			Usage: "IMEX `CHANNELS` for each container with a GPU: empty or 0",
			field: listField(imexChannel(), func(c *Config) *[]int { return &c.IMEX.Channels }),
		},
		{
			Name: "imex-required", Variables: []string{"IMEX_REQUIRED"}, Key: "imex.required", Category: category.Containers,
			Usage: "advertise no devices while the node lacks the channels of --imex-channel-ids",
			field: valueField(boolean(), func(c *Config) *bool { return &c.IMEX.Required }),
		},
	}
}

// CDIOptions returns the options for the paths of CDI specs and of their hook program.
func CDIOptions() []Option {
	return []Option{
		{
			Name: "cdi-root", Variables: []string{"CDI_ROOT"}, Restart: true, Category: category.Containers,
			Usage: "`FOLDER` for the CDI specs",
			field: valueField(optionalPath(), func(c *Config) *string { return &c.CDIRoot }),
		},
		{
			Name: "nvidia-cdi-hook-path", Aliases: []string{"nvidia-ctk-path"}, Variables: []string{"NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"}, Key: "flags.plugin.nvidiaCTKPath", Category: category.Containers,
			Usage: "`FILE` of nvidia-cdi-hook or nvidia-ctk on the host, for the hooks of CDI specs; if empty, the specs need no hooks",
			field: valueField(optionalPath(), func(c *Config) *string { return &c.HookPath }),
		},
	}
}

// specOptions returns the options for the content of CDI specs, and for the annotation that refers
// to them.
func specOptions() []Option {
	return []Option{
		{
			Name: "cdi-annotation-prefix", Variables: []string{"CDI_ANNOTATION_PREFIX"}, Key: "flags.plugin.cdiAnnotationPrefix", Category: category.Containers,
			Usage: "`PREFIX` of the annotation that the strategy cdi-annotations of --device-list-strategy sets",
			field: valueField(annotationPrefix(), func(c *Config) *string { return &c.CDIAnnotationPrefix }),
		},
		{
			Name: "cdi-feature-flags", Variables: []string{"CDI_FEATURE_FLAGS"}, Category: category.Containers,
			Usage: "feature `FLAGS` of NVIDIA's container toolkit for the CDI specs",
			field: listField(enum(featureFlags()), func(c *Config) *[]string { return &c.CDIFeatureFlags }),
		},
		{
			Name: "cdi-disable-hooks", Variables: []string{"CDI_DISABLE_HOOKS"}, Category: category.Containers,
			Usage: "`HOOKS` to leave out of the CDI specs; all leaves out every hook",
			field: listField(enum(hooks()), func(c *Config) *[]string { return &c.CDIDisableHooks }),
		},
	}
}

// GFDOptions returns the options that only feature discovery has.
func GFDOptions() []Option {
	return []Option{
		{
			Name: "output-file", Aliases: []string{"o", "output"}, Variables: []string{"GFD_OUTPUT_FILE"}, Key: "flags.gfd.outputFile", Restart: true, Category: category.Labels,
			Usage: "features `FILE` of Node Feature Discovery; if empty, labels go to standard output",
			field: valueField(optionalPath(), func(c *Config) *string { return &c.GFD.OutputFile }),
		},
		{
			Name: "use-node-feature-api", Variables: []string{"GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"}, Key: "flags.useNodeFeatureAPI", Restart: true, Category: category.Labels,
			Usage: "publish labels as a NodeFeature object of Node Feature Discovery",
			field: valueField(nodeFeature(), func(c *Config) *Output { return &c.GFD.Output }),
		},
		{
			Name: "oneshot", Variables: []string{"GFD_ONESHOT"}, Key: "flags.gfd.oneshot", Restart: true, Category: category.Labels,
			Usage: "publish labels once, then exit",
			field: valueField(boolean(), func(c *Config) *bool { return &c.GFD.OneShot }),
		},
		{
			Name: "no-timestamp", Variables: []string{"GFD_NO_TIMESTAMP"}, Key: "flags.gfd.noTimestamp", Restart: true, Category: category.Labels,
			Usage: "do not publish the label with the time of the last change of labels",
			field: valueField(boolean(), func(c *Config) *bool { return &c.GFD.NoTimestamp }),
		},
		{
			Name: "sleep-interval", Variables: []string{"GFD_SLEEP_INTERVAL"}, Key: "flags.gfd.sleepInterval", Restart: true, Category: category.Labels,
			Usage: "`TIME` between checks that published labels still exist, or infinite; has no effect for labels of the Node object, which the agent watches",
			field: valueField(interval(), func(c *Config) *time.Duration { return &c.GFD.SleepInterval }),
		},
		{
			Name: "machine-type-file", Variables: []string{"GFD_MACHINE_TYPE_FILE"}, Key: "flags.gfd.machineTypeFile", Restart: true, Category: category.Labels,
			Usage: "`FILE` with the product name of the machine; the default is below --sys-root; if empty, the machine type is unknown",
			field: valueField(optionalPath(), func(c *Config) *string { return &c.GFD.MachineTypeFile }),
		},
	}
}
