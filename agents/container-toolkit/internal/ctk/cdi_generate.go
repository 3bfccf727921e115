package ctk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/agents/container-toolkit/internal/cdifile"
	"outrigger.dev/agents/container-toolkit/internal/facts"
	"outrigger.dev/agents/container-toolkit/internal/generate"
	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/text"
)

// generation makes one spec. Its fields are the values of the flags of "cdi generate".
type generation struct {
	*program

	options generate.Options
	// output is the file of the spec. If it is empty, the spec goes to standard output.
	output                  string
	modeName, formatName    string
	strategies              []string
	driverRoot, devRoot     string
	libraryDirs, configDirs []string
	enabled, disabled       []string
	features                []string
	// leaseWait is how long the command waits while another program has claimed NVML.
	leaseWait time.Duration

	// The method complete sets the following fields, and the rest of the options.
	mode   generate.Mode
	gpus   gpus.Config
	driver driverroot.Config
	format cdifile.Format
	// note describes the spec. It is printed only with a spec: before an error, it would hide the error.
	note string
}

// run generates the spec and writes it.
func (g *generation) run(ctx context.Context) error {
	root, err := driverroot.New(g.driver)
	if err != nil {
		return err
	}
	content, err := root.Find()
	if missing, is := errors.AsType[*driverroot.MissingError](err); is && g.debug {
		fmt.Fprintln(g.stderr, "nvidia-ctk: searched:", missing.Searched())
	}
	if err != nil {
		return err
	}
	node := &gpu.Node{Driver: gpu.Driver{Version: content.Version}}
	if g.mode == generate.GPUs {
		if node, err = gpus.Read(ctx, g.gpus); err != nil {
			return err
		}
		if err := generate.CheckHidden(driverproc.Root(g.gpus.ProcRoot), content, node); err != nil {
			return err
		}
	}
	spec, err := g.spec(content, node)
	if err != nil {
		return err
	}
	if err := g.write(spec, node); err != nil {
		return err
	}
	if g.note != "" {
		g.printNote(g.note)
	}
	return nil
}

// spec derives the spec.
func (g *generation) spec(content *driverroot.Content, node *gpu.Node) (*specs.Spec, error) {
	got, unresolved, err := cdi.Specs(content, node.GPUs, g.options.Requests(g.mode)...)
	switch {
	case err != nil:
		return nil, err
	case len(unresolved) > 0:
		return nil, unresolved[0]
	case len(got) == 0:
		return nil, fmt.Errorf("the node has no devices for mode %s", g.mode)
	}
	return got[0], nil
}

// write writes the spec. If the spec goes to a file, it also writes the facts of the GPUs.
func (g *generation) write(spec *specs.Spec, node *gpu.Node) error {
	data, err := cdifile.Encode(spec, g.format)
	if err != nil {
		return err
	}
	if g.output == "" {
		_, err := g.stdout.Write(data)
		return err
	}
	if err := checkConflict(g.output, spec); err != nil {
		return err
	}
	if err := writeOutput(g.output, data); err != nil {
		return err
	}
	if g.mode != generate.GPUs {
		return nil
	}
	if node.Driver.NVMLVersion == "" {
		g.printNote("without NVML, the brand and architecture of GPUs and the CUDA version are unknown, so NVIDIA_REQUIRE_* can check only the driver version")
	}
	return facts.Write(g.output, data, g.options.Facts(node))
}

// checkConflict returns an error if another spec in the same folder defines a device of the new
// spec. Container engines would reject both definitions.
func checkConflict(path string, spec *specs.Spec) error {
	dir := filepath.Dir(path)
	for _, f := range inject.Load([]string{dir}, []string{spec.Kind}).Files {
		if f.Path == filepath.Join(dir, filepath.Base(path)) {
			continue
		}
		for i := range f.Spec.Devices {
			name := f.Spec.Devices[i].Name
			if slices.ContainsFunc(spec.Devices, func(d specs.Device) bool { return d.Name == name }) {
				return fmt.Errorf("write %s: %s defines %s=%s, and container engines reject a device that is defined twice: "+
					"if the container toolkit's agent runs on this host, see its log; else remove that file, or name it with --output", path, f.Path, spec.Kind, name)
			}
		}
	}
	return nil
}

// complete validates the flags, and reads the config file of the tools.
func (g *generation) complete(c *cli.Context) error {
	var modeErr, namesErr, formatErr, featuresErr error
	g.mode, modeErr = modeOf(g.modeName)
	o := &g.options
	o.Names, namesErr = namersOf(g.strategies)
	g.format, formatErr = cdifile.FormatOf(g.output, g.formatName)
	cfg, err := g.loadConfig()
	if err != nil {
		return err
	}
	flags, disabled := cfg.SpecFeatures()
	flags, disabled = append(flags, g.features...), append(disabled, without(g.disabled, oneHook)...)
	var void []string
	o.Features, void, featuresErr = cdi.ParseFeatures(flags, disabled)
	if err := errors.Join(modeErr, namesErr, formatErr, featuresErr, g.checkEnabled()); err != nil {
		return err
	}
	for _, v := range void {
		g.printNote("no effect: " + v)
	}
	if g.mode == generate.GPUs || g.mode == generate.Management {
		g.completeHook(cfg, c.IsSet("nvidia-cdi-hook-path"))
	} else {
		o.HookPath = ""
	}
	if slices.Contains(o.Only, "all") {
		o.Only = nil
	}
	if g.output != "" {
		g.output = cdifile.WithExtension(g.output, g.format)
	}
	root := cmp.Or(g.driverRoot, cfg.CLI.Root, "/")
	g.gpus = gpus.Config{
		HostDriverRoot: root, DriverRootCtrPath: root, DevRoot: g.devRoot,
		ProcRoot: "/proc", SysRoot: "/sys", RunRoot: "/run/nvidia", LeaseWait: g.leaseWait,
		Waiting: func(err error) {
			g.printNote(fmt.Sprintf("another program has exclusive use of NVML, waiting for at most %s: %s", g.leaseWait, err))
		},
	}
	g.driver = g.gpus.DriverRoot()
	g.driver.LibraryDirs, g.driver.ConfigDirs = g.libraryDirs, g.configDirs
	return nil
}

// modeOf returns the mode for a value of --mode.
func modeOf(value string) (generate.Mode, error) {
	modes := generate.Modes()
	switch m := generate.Mode(value); {
	case value == "auto":
		return generate.GPUs, nil
	case value == "csv":
		return "", errors.New("mode csv is for NVIDIA's Tegra systems, which are not supported: use NVIDIA's nvidia-ctk there")
	case value == "wsl":
		return "", errors.New("mode wsl is for the Windows Subsystem for Linux, which is not supported: use NVIDIA's nvidia-ctk there")
	case slices.Contains(modes, m):
		return m, nil
	}
	names := []string{"auto"}
	for _, m := range modes {
		names = append(names, string(m))
	}
	return "", fmt.Errorf("flag --mode: %q: must be %s", value, text.OneOf(names))
}

// namersOf returns the device namers for the values of --device-name-strategy.
func namersOf(strategies []string) ([]cdi.Namer, error) {
	known := map[string][]cdi.Namer{
		"index": {cdi.ByIndex}, "uuid": {cdi.ByUUID}, "type-index": {cdi.ByType}, "pci-bus-id": {cdi.ByPCI, cdi.ByPCIAddress},
	}
	var out []cdi.Namer
	for _, s := range strategies {
		namers, ok := known[s]
		if !ok {
			return nil, fmt.Errorf("flag --device-name-strategy: %q: must be index, uuid, pci-bus-id or type-index", s)
		}
		out = append(out, namers...)
	}
	return out, nil
}

func without(list []string, value string) []string {
	return slices.DeleteFunc(list, func(v string) bool { return v == value })
}
