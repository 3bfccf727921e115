package ctk

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/hostfs"
)

// configOf reads the config file of the tools. It prints what in it has no effect.
func configOf(c *cli.Context, stderr io.Writer) (*toolconfig.Config, error) {
	cfg, warnings, err := toolconfig.Load(toolconfig.Path(c.String("config"), os.Getenv, toolconfig.Beside()))
	for _, w := range warnings {
		note(c, stderr, w)
	}
	return cfg, err
}

// note prints what a person should know and is no error, unless --quiet is set.
func note(c *cli.Context, stderr io.Writer, text string) {
	if !c.Bool("quiet") {
		fmt.Fprintln(stderr, "nvidia-ctk:", text)
	}
}

// whereOf returns where the driver is, from the flags --driver-root and --dev-root and
// the config file.
func whereOf(c *cli.Context, cfg *toolconfig.Config) gpus.Config {
	root := cmp.Or(c.String("driver-root"), cfg.CLI.Root, "/")
	return gpus.Config{
		HostDriverRoot: root, DriverRootCtrPath: root, DevRoot: c.String("dev-root"),
		ProcRoot: "/proc", SysRoot: "/sys", RunRoot: "/run/nvidia",
	}
}

// writeOutput writes the file that a flag --output names, which everybody may read.
func writeOutput(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return hostfs.WriteFile(path, data, 0o644)
}
