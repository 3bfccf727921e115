// Package parts makes the agent parts that the programs of this module share.
package parts

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/agents/device-plugin/internal/prepare"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
)

// Config configures the parts of a program.
type Config struct {
	// Config has the config, the rules and the source of the GPUs, and the fields that only some
	// programs set. New sets the other fields.
	inventory.Config
	Driver *driver.Driver
	// Advertiser is the name of the program if it advertises the GPUs. Such a program claims the
	// GPUs, writes CDI specs, and serves metrics of the devices.
	Advertiser string
	// Vendor is the vendor of the CDI specs, see prepare.Config.
	Vendor string
	// ToolkitDir is the folder on the host where the container toolkit is installed.
	ToolkitDir string
	Recorder   *metrics.Recorder
}

// ToolkitFlag returns the flag that sets ToolkitDir.
func ToolkitFlag(dir *string) cli.Flag {
	return cmdline.Absolute(&cli.PathFlag{
		Name: "toolkit-install-dir", EnvVars: []string{"TOOLKIT_INSTALL_DIR"}, Value: "/usr/local/nvidia", Destination: dir, Category: category.Containers,
		Usage: "`FOLDER` on the host in which the container toolkit is installed; CDI specs name no other hook than the one in its folder toolkit",
	})
}

// Base has the parts that the programs share.
type Base struct {
	Inventory *inventory.Inventory
	// Specs is nil for a program that does not advertise GPUs.
	Specs *prepare.Preparer
	// Parts are the first parts of the agent, because all others wait for the GPUs.
	Parts []agent.Part
}

// New returns the Base of a program.
func New(cfg Config) *Base {
	b := &Base{}
	part := agent.Part{Name: "inventory", Health: driver.Checks(cfg.Source), Close: cfg.Source.Close}
	cfg.Config.WatchChanges, cfg.Config.Recorder, cfg.Preparer = cfg.Driver.WatchChanges, cfg.Recorder, inventory.Unprepared{}
	if cfg.Advertiser != "" {
		b.Specs = prepare.New(prepare.Config{
			Root: cfg.Driver.Root, Vendor: cfg.Vendor,
			Toolkit: prepare.Toolkit{Contract: cfg.Driver.Contract, Root: cfg.Driver.Root, InstallDir: cfg.ToolkitDir}, Log: cfg.Log,
		})
		dir := cfg.Driver.Contract
		dir.Log = cfg.Log
		claims := dir.NewClaims(cfg.Advertiser)
		cfg.Preparer, cfg.Claims = b.Specs, claims
		b.Parts = []agent.Part{{
			Name:  "gpu claims",
			Run:   func(ctx context.Context) error { claims.Watch(ctx, b.Inventory.Wake); return nil },
			Close: func() error { claims.Release(); return nil },
		}}
		part.Collectors = []prometheus.Collector{cfg.Recorder}
	}
	cfg.Config.Incidents = cfg.Driver.Incidents(cfg.Source, cfg.Log)
	b.Inventory = inventory.New(cfg.Config)
	part.Run, part.Reload = b.Inventory.Run, b.Inventory.Reload
	b.Parts = append([]agent.Part{part}, b.Parts...)
	return b
}
