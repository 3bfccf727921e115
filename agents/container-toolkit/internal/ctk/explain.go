package ctk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/oci"
	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/agents/container-toolkit/internal/shim"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/text"
)

// explainCommand returns "nvidia-ctk explain".
func (p *program) explainCommand() *cli.Command {
	var mode string
	var compare, privileged bool
	var annotations cli.StringSlice
	return &cli.Command{
		Name:      "explain",
		Usage:     "show the devices and files that nvidia-container-runtime would give a container, and why",
		ArgsUsage: "BUNDLE | NAME=VALUE…",
		Description: "BUNDLE is the folder of a container with its config.json. NAME=VALUE are variables of a\n" +
			"container, such as NVIDIA_VISIBLE_DEVICES=all. Nothing is changed. The exit code is 1 if the\n" +
			"container would be rejected.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "mode", Destination: &mode, Usage: "use `MODE` instead of the mode in the config file: " + strings.Join(toolconfig.Modes(), ", ")},
			&cli.BoolFlag{Name: "compare", Destination: &compare, Usage: "also show the differences between the modes cdi and legacy"},
			&cli.BoolFlag{Name: "privileged", Destination: &privileged, Usage: "assume that the container has CAP_SYS_ADMIN; only with variables"},
			&cli.StringSliceFlag{Name: "annotation", Destination: &annotations, Usage: "`NAME=VALUE` of an annotation; can be repeated; only with variables"},
		},
		Action: func(c *cli.Context) error {
			cfg, err := p.loadConfig()
			if err != nil {
				return err
			}
			if mode != "" {
				cfg.Runtime.Mode = mode
			}
			container, target, err := explained(c.Args().Slice(), annotations.Value(), privileged)
			if err != nil {
				return err
			}
			plan, refused := shim.Make(container, target, cfg)
			if err := show(p.stdout, plan); err != nil {
				return err
			}
			if refused == nil && plan.Mode == toolconfig.ModeLegacy {
				_, refused = shim.FindHook(cfg.Hook.Path, os.Getenv("PATH"))
			}
			if refused != nil {
				return fmt.Errorf("the container is rejected: %w", refused)
			}
			if compare {
				return showDifference(c.Context, p.stdout, plan, cfg)
			}
			return nil
		},
	}
}

// explained returns the container that the arguments describe. annotations and privileged are only
// used if the arguments are variables.
func explained(args, annotations []string, privileged bool) (request.Container, inject.Target, error) {
	target := inject.Target{Stat: shim.HostNode, Public: shim.HostPublic}
	if len(args) == 0 {
		return request.Container{}, target, errors.New("explain: name a bundle, or variables like NVIDIA_VISIBLE_DEVICES=all")
	}
	if first := args[0]; !strings.Contains(first, "=") {
		if len(args) > 1 {
			return request.Container{}, target, fmt.Errorf("explain: unexpected argument %q beside a bundle", args[1])
		}
		spec, err := oci.Load(strings.TrimSuffix(first, "/config.json"))
		if err != nil {
			return request.Container{}, target, err
		}
		target.User, target.UserNamespace = spec.User(), spec.UserNamespace()
		return request.FromSpec(spec), target, nil
	}
	for _, arg := range slices.Concat(args, annotations) {
		if !strings.Contains(arg, "=") {
			return request.Container{}, target, fmt.Errorf("explain: %q has no value: write NAME=VALUE", arg)
		}
	}
	return request.Container{
		Env:         request.Environment(args),
		Annotations: request.Environment(annotations),
		Privileged:  privileged,
	}, target, nil
}

// show prints a plan.
func show(w io.Writer, p *shim.Plan) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what, value, why string) {
		if why != "" {
			value += "\t(" + text.Printable(why) + ")"
		}
		fmt.Fprintf(out, "%s\t%s\n", what, value)
	}
	for _, d := range p.Request.Decisions {
		row(d.About, text.Printable(d.Result), d.Reason)
	}
	if p.Mode != "" {
		row("mode", p.Mode, p.Reason)
	}
	for _, d := range p.Devices {
		row("CDI device", d.File.Spec.Kind+"="+d.Name, d.File.Path)
	}
	if p.Mode == toolconfig.ModeLegacy {
		row("adds", "prestart hook nvidia-container-runtime-hook", "it runs nvidia-container-cli configure")
	}
	for _, line := range describeEdits(p.Edits) {
		row("adds", line, "")
	}
	for _, w := range p.Warnings {
		row("warning", text.Printable(w), "")
	}
	if names := leftOut(p.Left); len(names) > 0 {
		row("leaves out", strings.Join(names, ", "), "no capability of the container needs it")
	}
	return out.Flush()
}

// describeEdits returns one line for each edit.
func describeEdits(e oci.Edits) []string {
	var out []string
	for _, v := range e.Env {
		out = append(out, "variable "+v)
	}
	for i, d := range e.Devices {
		line := fmt.Sprintf("device node %s %s %d:%d", d.Path, d.Type, d.Major, d.Minor)
		if i < len(e.Rules) && e.Rules[i].Access != "" && len(e.Rules) == len(e.Devices) {
			line += " " + e.Rules[i].Access
		}
		out = append(out, line)
	}
	out = append(out, describeMounts(e.Mounts)...)
	for name, d := range e.NetDevices {
		out = append(out, fmt.Sprintf("network device %s as %s", name, d.Name))
	}
	for _, gid := range e.GIDs {
		out = append(out, fmt.Sprintf("group %d", gid))
	}
	if e.IntelRdt != nil {
		out = append(out, "RDT class "+e.IntelRdt.ClosID)
	}
	for _, h := range e.Hooks {
		out = append(out, fmt.Sprintf("%s hook %s", h.Phase, strings.Join(append([]string{h.Path}, tail(h.Args)...), " ")))
	}
	return out
}

// describeMounts returns one line for each source of mounts. A library is mounted at several paths,
// one for each of its names.
func describeMounts(mounts []specs.Mount) []string {
	paths := map[string][]string{}
	var sources []string
	for _, m := range mounts {
		if paths[m.Source] == nil {
			sources = append(sources, m.Source)
		}
		paths[m.Source] = append(paths[m.Source], m.Destination)
	}
	slices.Sort(sources)
	for i, source := range sources {
		line := "mount " + source
		switch at := paths[source]; {
		case len(at) > 2:
			line += fmt.Sprintf(" at %s and %d other paths", at[0], len(at)-1)
		case len(at) == 2 || at[0] != source:
			line += " at " + strings.Join(at, " and ")
		}
		sources[i] = line
	}
	return sources
}

// leftOut returns the unique names of the parts that are left out. A library has several paths.
func leftOut(paths []string) []string {
	var out []string
	for _, p := range paths {
		name := p
		if !strings.HasPrefix(p, "/dev/") {
			name, _, _ = strings.Cut(filepath.Base(p), ".so")
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// tail returns the arguments without the program name.
func tail(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	return args[1:]
}

// infoCommand returns "nvidia-ctk info".
func (p *program) infoCommand() *cli.Command {
	return &cli.Command{
		Name:  "info",
		Usage: "show the programs, the config file and the CDI specs that nvidia-container-runtime would use",
		Action: func(*cli.Context) error {
			cfg, err := p.loadConfig()
			if err != nil {
				return err
			}
			out := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
			path := configPath(p.config)
			if _, err := os.Stat(path); err != nil {
				path += " (does not exist: defaults)"
			}
			fmt.Fprintf(out, "config file\t%s\n", path)
			for _, fact := range shim.Facts(cfg, os.Getenv("PATH")) {
				fmt.Fprintf(out, "%s\t%s\n", fact.About, text.Printable(fact.Result))
			}
			set := inject.Load(cfg.Runtime.CDI.SpecDirs, nil)
			for _, f := range set.Files {
				fmt.Fprintf(out, "CDI spec\t%s: %d devices of kind %s, version %s\n", filepath.Clean(f.Path), len(f.Spec.Devices), f.Spec.Kind, f.Spec.Version)
			}
			for _, p := range set.Problems {
				fmt.Fprintf(out, "CDI problem\t%s\n", text.OneLine(p))
			}
			return out.Flush()
		},
	}
}
