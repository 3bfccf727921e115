package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/hostfs"
)

func exportCommand() *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "print the MIG modes and devices that the GPUs have, as a config file",
		Flags: []cli.Flag{
			formatFlag("MIG_PARTED_OUTPUT_FORMAT", "yaml", "json"),
			&cli.StringFlag{
				Name: "config-label", Aliases: []string{"l"}, EnvVars: []string{"MIG_PARTED_CONFIG_LABEL"}, Value: "current",
				Usage: "`NAME` of the config in the file",
			},
		},
		Action: action(func(c *cli.Context, log *slog.Logger) error {
			format, err := agent.Choice(c, "output-format", "yaml", "json")
			if err != nil {
				return err
			}
			gpus, err := observe(c, log)
			if err != nil {
				return err
			}
			for _, g := range gpus {
				if g.Fault != nil {
					log.Warn("gpu cannot be read, it is left out", "gpu", g.Index, "err", g.Fault)
				}
			}
			return printConfig(c, migconfig.Export(c.String("config-label"), gpus), format)
		}),
	}
}

func generateCommand() *cli.Command {
	return &cli.Command{
		Name: "generate", Aliases: []string{"generate-config"}, Usage: "print a config file with all profiles that the GPUs have; also as generate-config",
		Flags: []cli.Flag{
			&cli.PathFlag{
				Name: "output-file", Aliases: []string{"f"}, EnvVars: []string{"MIG_PARTED_OUTPUT_FILE"},
				Usage: "`FILE` to write; empty or - for standard output",
			},
			formatFlag("MIG_PARTED_OUTPUT_FORMAT", "yaml", "json"),
			boardFlag("`NAME` of a board to generate the file for, without a GPU"),
		},
		Action: action(generate),
	}
}

func generate(c *cli.Context, log *slog.Logger) error {
	format, err := agent.Choice(c, "output-format", "yaml", "json")
	if err != nil {
		return err
	}
	gpus, err := boardGPUs(c, 1)
	if err == nil && gpus == nil {
		gpus, err = observe(c, log)
	}
	if err != nil {
		return err
	}
	config, err := migconfig.Generate(gpus)
	if err != nil {
		return fmt.Errorf("generate config: %w: turn the MIG mode on, or name the board with --board", err)
	}
	return printConfig(c, config, format)
}

// printConfig writes a config file to standard output, or to the file that the flags name.
func printConfig(c *cli.Context, config migconfig.Config, format string) error {
	encode := config.YAML
	if format == "json" {
		encode = config.JSON
	}
	data, err := encode()
	if err != nil {
		return err
	}
	return write(c, c.Path("output-file"), data)
}

func checkpointCommand() *cli.Command {
	return &cli.Command{
		Name: "checkpoint", Usage: "save the MIG modes and layouts that the GPUs have, for restore",
		Flags: []cli.Flag{checkpointFlag("`FILE` to write; - for standard output")},
		Action: action(func(c *cli.Context, log *slog.Logger) error {
			file := c.Path("checkpoint-file")
			if file == "" {
				return agent.Usagef("flag --checkpoint-file: is missing: it must name a file")
			}
			gpus, err := observe(c, log)
			if err != nil {
				return err
			}
			saved, err := migconfig.NewCheckpoint(gpus)
			if err != nil {
				return err
			}
			data, err := saved.JSON()
			if err != nil {
				return err
			}
			if err := write(c, file, data); err != nil || file == "-" {
				return err
			}
			return say(c, "MIG configuration checkpointed successfully")
		}),
	}
}

func snapshotCommand() *cli.Command {
	return &cli.Command{
		Name: "snapshot", Usage: "print the GPUs with their boards and layouts as JSON, for plan --snapshot",
		Action: action(func(c *cli.Context, log *slog.Logger) error {
			gpus, err := observe(c, log)
			if err != nil {
				return err
			}
			return printJSON(c.App.Writer, gpus)
		}),
	}
}

// observe returns the GPUs of the node.
func observe(c *cli.Context, log *slog.Logger) (gpus []mig.GPU, err error) {
	err = onNode(c, log, func(n *node) error {
		gpus, err = n.GPUs(c.Context)
		return err
	})
	return gpus, err
}

// write writes a file, or to standard output.
func write(c *cli.Context, file string, data []byte) error {
	if file == "" || file == "-" {
		if _, err := c.App.Writer.Write(data); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		return nil
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	// What is no file, such as /dev/stdout, must not be replaced by one.
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	return hostfs.WriteFile(path, data, 0o644)
}
