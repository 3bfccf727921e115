package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

func createCommand() *cli.Command {
	return &cli.Command{
		Name:  "create",
		Usage: "create a simulated node",
		Flags: []cli.Flag{
			rootFlag(),
			cmdline.Check(&cli.IntFlag{Name: "gpus", Usage: "number of GPUs, 0 to 16", Value: 8, EnvVars: []string{"GPU_SIM_GPUS"}}, "0 to 16", func(n int) bool { return 0 <= n && n <= state.MaxGPUs }),
			modelFlag(),
			driverFlag(),
			&cli.StringFlag{Name: "driver-version", Usage: "`VERSION` of the driver", Value: state.DefaultDriver, EnvVars: []string{"GPU_SIM_DRIVER_VERSION"}},
			&cli.StringFlag{Name: "name", Usage: "`NAME` from which the UUIDs are derived (default: the name of the folder)", EnvVars: []string{"GPU_SIM_NAME"}},
			&cli.StringFlag{Name: "lib-dir", Usage: "`FOLDER` with the simulator's libraries (default: \"lib\" next to gpu-sim)", EnvVars: []string{"GPU_SIM_LIB_DIR"}},
		},
		Action: func(c *cli.Context) (err error) {
			cfg, err := createConfig(c)
			if err != nil {
				return err
			}
			n, err := node.Create(cfg)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, n.Close()) }()
			return printNode(c.App.Writer, n)
		},
	}
}

// models returns the names of all products.
func models() []string {
	var out []string
	for _, m := range state.Models() {
		out = append(out, m.ID)
	}
	return out
}

func modelFlag() cli.Flag {
	return cmdline.Enum(&cli.StringFlag{Name: "model", Usage: "product: " + strings.Join(models(), ", "), Value: models()[0], EnvVars: []string{"GPU_SIM_MODEL"}}, models()...)
}

func driverFlag() cli.Flag {
	return cmdline.Enum(&cli.StringFlag{Name: "driver", Usage: "\"on\" (loaded) or \"off\"", Value: "on", EnvVars: []string{"GPU_SIM_DRIVER"}}, "on", "off")
}

func createConfig(c *cli.Context) (node.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return node.Config{}, fmt.Errorf("find gpu-sim itself: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return node.Config{}, fmt.Errorf("find gpu-sim itself: %w", err)
	}
	libs := c.String("lib-dir")
	if libs == "" {
		libs = filepath.Join(filepath.Dir(self), "lib")
	}
	spec := state.NewSpec(c.String("model"), c.Int("gpus"))
	spec.Node = c.String("name")
	if spec.Node == "" {
		spec.Node = filepath.Base(c.String("root"))
	}
	spec.DriverVersion = c.String("driver-version")
	spec.DriverOff = c.String("driver") == "off"
	return node.Config{Root: c.String("root"), Spec: spec, Libraries: libs, Program: self, Host: node.Machine()}, nil
}

// parseSwitch reads a setting that is on or off.
func parseSwitch(name, value string) (bool, error) {
	switch value {
	case "on":
		return true, nil
	case "off":
		return false, nil
	}
	return false, fmt.Errorf("%s %q: want \"on\" or \"off\"", name, value)
}

func deleteCommand() *cli.Command {
	return &cli.Command{
		Name:  "delete",
		Usage: "unload the driver of a simulated node and remove its folder",
		Flags: []cli.Flag{rootFlag()},
		Action: func(c *cli.Context) error {
			root := filepath.Clean(c.String("root"))
			if err := node.Delete(root); err != nil {
				return err
			}
			if parent := filepath.Dir(DefaultRoot); filepath.Dir(root) == parent {
				// It came with the first node; it stays if it has another.
				if err := os.Remove(parent); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("delete the folder of all nodes: %w", err)
				}
			}
			_, err := fmt.Fprintf(c.App.Writer, "deleted %s\n", root)
			return err
		},
	}
}
