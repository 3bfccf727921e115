package app

import (
	"log/slog"

	"github.com/urfave/cli/v2"
)

// effective is what the first line of the log says.
func (s settings) effective(c *cli.Context) slog.Value {
	cfg := s.Config
	attrs := []slog.Attr{
		slog.String("gpu_source", c.String("gpu-source")),
		slog.String("config_file", s.File.Path),
		slog.String("config_dir", s.File.Dir),
		slog.String("driver_root", s.driver.Root.HostPath()),
		slog.String("driver_root_ctr_path", s.driver.Root.CtrPath()),
		slog.String("dev_root", cfg.Driver.DevRoot),
		slog.String("run_root", s.driver.Contract.Root),
		slog.String("mig_strategy", string(cfg.MIGStrategy)),
		slog.Any("device_list_strategy", cfg.ListStrategies),
		slog.String("device_id_strategy", string(cfg.IDStrategy)),
		slog.Bool("pass_device_specs", cfg.PassDeviceSpecs),
		slog.String("shared_devices_allocation_policy", string(cfg.Policy)),
		slog.Bool("gds_enabled", cfg.GDS),
		slog.Bool("mofed_enabled", cfg.MOFED),
		slog.Bool("gdrcopy_enabled", cfg.GDRCopy),
		slog.String("cdi_root", cfg.CDIRoot),
		slog.String("nvidia_cdi_hook_path", cfg.HookPath),
		slog.String("kubelet_socket", c.Path("kubelet-socket")),
		slog.Bool("fail_on_init_error", cfg.FailOnInitError),
		slog.String("disable_healthchecks", cfg.HealthChecks.Disable),
		slog.String("enable_healthchecks", cfg.HealthChecks.Enable),
	}
	// What few choose is told where it is chosen.
	if len(cfg.Sharing.Shares) > 0 {
		attrs = append(attrs, slog.Any("sharing", cfg.Sharing), slog.String("mps_root", cfg.MPSRoot))
	}
	if len(cfg.Resources.GPUs)+len(cfg.Resources.MIG) > 0 {
		attrs = append(attrs, slog.Any("resources", cfg.Resources))
	}
	if len(cfg.Filter.Include)+len(cfg.Filter.Exclude) > 0 {
		attrs = append(attrs, slog.Any("devices", cfg.Filter))
	}
	if len(cfg.IMEX.Channels) > 0 || cfg.IMEX.Required {
		attrs = append(attrs, slog.Any("imex", cfg.IMEX))
	}
	if len(cfg.CDIFeatureFlags)+len(cfg.CDIDisableHooks) > 0 {
		attrs = append(attrs, slog.Any("cdi_feature_flags", cfg.CDIFeatureFlags), slog.Any("cdi_disable_hooks", cfg.CDIDisableHooks))
	}
	return slog.GroupValue(attrs...)
}
