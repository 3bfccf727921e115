package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/hostfs"
)

func (s *settings) exportCommand() *cli.Command {
	o := &command{settings: s}
	return &cli.Command{
		Name: "export", Usage: "print the MIG modes and MIG devices of the GPUs as a config file",
		Flags: []cli.Flag{
			o.formatFlag("MIG_PARTED_OUTPUT_FORMAT", "yaml", "json"),
			&cli.StringFlag{
				Name: "config-label", Aliases: []string{"l"}, EnvVars: []string{"MIG_PARTED_CONFIG_LABEL"}, Value: "current", Destination: &o.label,
				Usage: "`NAME` of the config in the file",
			},
		},
		Action: s.action(func(c *cli.Context, log *slog.Logger) error {
			gpus, err := s.observe(c.Context, log)
			if err != nil {
				return err
			}
			for _, g := range gpus {
				if g.Fault != nil {
					log.Warn("cannot read gpu, leaving it out", "gpu", g.Index, "err", g.Fault)
				}
			}
			return o.printConfig(c, migconfig.Export(o.label, gpus))
		}),
	}
}

func (s *settings) generateCommand() *cli.Command {
	o := &command{settings: s}
	return &cli.Command{
		Name: "generate", Aliases: []string{"generate-config"}, Usage: "print a config file with all MIG profiles of the GPUs",
		Flags: []cli.Flag{
			&cli.PathFlag{
				Name: "output-file", Aliases: []string{"f"}, EnvVars: []string{"MIG_PARTED_OUTPUT_FILE"}, Destination: &o.output,
				Usage: "`FILE` to write; empty or - for standard output",
			},
			o.formatFlag("MIG_PARTED_OUTPUT_FORMAT", "yaml", "json"),
			o.boardFlag("`NAME` of a board: print its profiles, also on a machine without GPUs"),
		},
		Action: s.action(o.generate),
	}
}

func (o *command) generate(c *cli.Context, log *slog.Logger) (err error) {
	gpus := o.boardGPUs(1)
	if gpus == nil {
		if gpus, err = o.observe(c.Context, log); err != nil {
			return err
		}
	}
	config, err := migconfig.Generate(gpus)
	if err != nil {
		return fmt.Errorf("generate config: %w: turn the MIG mode on, or name the board with --board", err)
	}
	return o.printConfig(c, config)
}

// printConfig writes a config file to standard output or to the file that the flags name.
func (o *command) printConfig(c *cli.Context, config migconfig.Config) error {
	encode := config.YAML
	if o.format == "json" {
		encode = config.JSON
	}
	data, err := encode()
	if err != nil {
		return err
	}
	return write(c, o.output, data)
}

func (s *settings) checkpointCommand() *cli.Command {
	o := &command{settings: s}
	return &cli.Command{
		Name: "checkpoint", Usage: "save the MIG modes and layouts of the GPUs, for restore",
		Flags: []cli.Flag{o.checkpointFlag("`FILE` to write; - for standard output")},
		Action: s.action(func(c *cli.Context, log *slog.Logger) error {
			if o.checkpoint == "" {
				return cmdline.Usagef("flag --checkpoint-file: is missing: it must name a file")
			}
			gpus, err := s.observe(c.Context, log)
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
			if err := write(c, o.checkpoint, data); err != nil || o.checkpoint == "-" {
				return err
			}
			return printLine(c, "MIG configuration checkpointed successfully")
		}),
	}
}

func (s *settings) snapshotCommand() *cli.Command {
	return &cli.Command{
		Name: "snapshot", Usage: "print the GPUs with their boards and layouts as JSON, for plan --snapshot",
		Action: s.action(func(c *cli.Context, log *slog.Logger) error {
			gpus, err := s.observe(c.Context, log)
			if err != nil {
				return err
			}
			return printJSON(c.App.Writer, gpus)
		}),
	}
}

// observe returns the GPUs of the node.
func (s *settings) observe(ctx context.Context, log *slog.Logger) (gpus []mig.GPU, err error) {
	err = s.onNode(log, func(n *node) error {
		gpus, err = n.GPUs(ctx)
		return err
	})
	return gpus, err
}

// write writes to a file or to standard output.
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
	// A path that is not a regular file, such as /dev/stdout, must not be replaced.
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, 0o644)
	}
	return hostfs.WriteFile(path, data, 0o644)
}
