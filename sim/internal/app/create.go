package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/sim/internal/model"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

func createCommand() *cli.Command {
	var o creation
	return &cli.Command{
		Name:  "create",
		Usage: "create a simulated node",
		Flags: []cli.Flag{
			rootFlag(&o.root),
			cmdline.Check(&cli.IntFlag{Name: "gpus", Usage: "number of GPUs, 0 to 16", Value: 8, Destination: &o.gpus, EnvVars: []string{"GPU_SIM_GPUS"}}, "0 to 16", func(n int) bool { return 0 <= n && n <= state.MaxGPUs }),
			modelFlag(&o.model, "the FILE of an own model, or a product: "+strings.Join(model.Names(), ", "), model.Default),
			driverFlag(&o.driver),
			&cli.StringFlag{Name: "driver-version", Usage: "`VERSION` of the driver", Value: state.DefaultDriver, Destination: &o.version, EnvVars: []string{"GPU_SIM_DRIVER_VERSION"}},
			cmdline.Check(&cli.IntFlag{Name: "imex-channels", Usage: "number of IMEX channels with a device node, 0 to 2048", Destination: &o.channels, EnvVars: []string{"GPU_SIM_IMEX_CHANNELS"}}, "0 to 2048", func(n int) bool { return 0 <= n && n <= state.MaxIMEXChannels }),
			&cli.StringFlag{Name: "name", Usage: "`NAME` from which the UUIDs are derived (default: the name of the folder)", EnvVars: []string{"GPU_SIM_NAME"}, Destination: &o.name},
			&cli.StringFlag{Name: "lib-dir", Usage: "`FOLDER` with the simulator's libraries (default: \"lib\" next to gpu-sim)", EnvVars: []string{"GPU_SIM_LIB_DIR"}, Destination: &o.libs},
		},
		Action: func(c *cli.Context) (err error) {
			cfg, err := o.config()
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

// modelFlag returns the flag for an argument of model.Find.
func modelFlag(name *string, usage, value string) cli.Flag {
	return &cli.StringFlag{
		Name: "model", Usage: usage, Value: value, Destination: name, EnvVars: []string{"GPU_SIM_MODEL"},
		Action: func(_ *cli.Context, ref string) error {
			if _, err := model.Find(ref); err != nil {
				return fmt.Errorf("flag --model (environment variable GPU_SIM_MODEL): %w", err)
			}
			return nil
		},
	}
}

func driverFlag(driver *string) cli.Flag {
	return cmdline.Enum(&cli.StringFlag{Name: "driver", Usage: "\"on\" (loaded) or \"off\"", Value: "on", Destination: driver, EnvVars: []string{"GPU_SIM_DRIVER"}}, "on", "off")
}

// creation holds the values of the flags of create.
type creation struct {
	root, model, driver, version, name, libs string
	gpus, channels                           int
}

func (o creation) config() (node.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return node.Config{}, fmt.Errorf("find gpu-sim itself: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return node.Config{}, fmt.Errorf("find gpu-sim itself: %w", err)
	}
	spec := state.NewSpec(o.model, o.gpus)
	spec.Node, spec.DriverVersion, spec.DriverOff = cmp.Or(o.name, filepath.Base(o.root)), o.version, o.driver == "off"
	spec.IMEXChannels = o.channels
	libs := cmp.Or(o.libs, filepath.Join(filepath.Dir(self), "lib"))
	return node.Config{Root: o.root, Spec: spec, Libraries: libs, Program: self, Host: node.Machine()}, nil
}

// parseSwitch parses a setting that is on or off.
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
	var root string
	return &cli.Command{
		Name:  "delete",
		Usage: "unload the driver of a simulated node and remove its folder",
		Flags: []cli.Flag{rootFlag(&root)},
		Action: func(c *cli.Context) error {
			root = filepath.Clean(root)
			if err := node.Delete(root); err != nil {
				return err
			}
			if parent := filepath.Dir(DefaultRoot); filepath.Dir(root) == parent {
				// The folder was made with the first node. It stays if it has other nodes.
				if err := os.Remove(parent); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("delete the folder of all nodes: %w", err)
				}
			}
			_, err := fmt.Fprintf(c.App.Writer, "deleted %s\n", root)
			return err
		},
	}
}
