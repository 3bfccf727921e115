package ctk

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/pkg/cmdline"
)

// listCommand returns "nvidia-ctk cdi list".
func (p *program) listCommand() *cli.Command {
	var dirs []string
	return &cli.Command{
		Name:  "list",
		Usage: "print the devices that the CDI specs of this node define",
		Flags: []cli.Flag{cmdline.List(&cli.StringSliceFlag{
			Name: "spec-dir", EnvVars: []string{"NVIDIA_CTK_CDI_SPEC_DIRS"}, Value: cli.NewStringSlice("/etc/cdi", "/var/run/cdi"),
			Usage: "`FOLDER` with CDI specs; can be repeated, the last one takes precedence",
		}, &dirs)},
		Action: func(*cli.Context) error {
			set := inject.Load(dirs, nil)
			for _, err := range set.Problems {
				fmt.Fprintln(p.stderr, "nvidia-ctk:", err)
			}
			for _, name := range names(set) {
				fmt.Fprintln(p.stdout, name)
			}
			return nil
		},
	}
}

// names returns the qualified names of the devices in the specs, sorted.
func names(set *inject.Set) []string {
	var out []string
	for _, f := range set.Files {
		for _, d := range f.Spec.Devices {
			out = append(out, f.Spec.Kind+"="+d.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
