package ctk

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

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

// generation makes one spec, as the flags of "cdi generate" describe it.
type generation struct {
	mode    generate.Mode
	options generate.Options
	gpus    gpus.Config
	driver  driverroot.Config
	format  cdifile.Format
	// output is the file of the spec, empty for standard output.
	output         string
	stdout, stderr io.Writer
}

// run generates the spec and writes it.
func (g *generation) run(c *cli.Context) error {
	root, err := driverroot.New(g.driver)
	if err != nil {
		return err
	}
	content, err := root.Find()
	if missing, is := errors.AsType[*driverroot.MissingError](err); is && c.Bool("debug") {
		fmt.Fprintln(g.stderr, "nvidia-ctk: searched:", missing.Searched())
	}
	if err != nil {
		return err
	}
	node := &gpu.Node{Driver: gpu.Driver{Version: content.Version}}
	if g.mode == generate.GPUs {
		if node, err = gpus.Read(c.Context, g.gpus); err != nil {
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
	return g.write(c, spec, node)
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
		return nil, fmt.Errorf("the node has nothing that mode %s describes", g.mode)
	}
	return got[0], nil
}

// write writes the spec, and the facts of its GPUs if it goes to a file.
func (g *generation) write(c *cli.Context, spec *specs.Spec, node *gpu.Node) error {
	data, err := cdifile.Encode(spec, g.format)
	if err != nil {
		return err
	}
	if g.output == "" {
		_, err := g.stdout.Write(data)
		return err
	}
	if err := conflict(g.output, spec); err != nil {
		return err
	}
	if err := writeOutput(g.output, data); err != nil {
		return err
	}
	if g.mode != generate.GPUs {
		return nil
	}
	if node.Driver.NVMLVersion == "" {
		note(c, g.stderr, "without NVML the brand and architecture of GPUs and the CUDA version are not known: NVIDIA_REQUIRE_* can check the driver version only")
	}
	return facts.Write(g.output, data, g.options.Facts(node))
}

// conflict returns an error if another spec in the folder of a file has a device of the spec
// to write: container engines then inject neither.
func conflict(path string, spec *specs.Spec) error {
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

// generationOf reads the flags of "cdi generate".
func generationOf(c *cli.Context, stdout, stderr io.Writer) (*generation, error) {
	mode, modeErr := modeOf(c.String("mode"))
	names, namesErr := namersOf(c.StringSlice("device-name-strategy"))
	format, formatErr := cdifile.FormatOf(c.String("output"), c.String("format"))
	cfg, err := configOf(c, stderr)
	if err != nil {
		return nil, err
	}
	flags, disabled := cfg.SpecFeatures()
	flags, disabled = append(flags, values(c, "feature-flag")...), append(disabled, without(values(c, "disable-hook"), oneHook)...)
	features, void, featuresErr := cdi.ParseFeatures(flags, disabled)
	if err := errors.Join(modeErr, namesErr, formatErr, featuresErr, csvErr(c), enabledErr(c)); err != nil {
		return nil, err
	}
	for _, v := range void {
		note(c, stderr, "no effect: "+v)
	}
	var hook string
	var one bool
	if mode == generate.GPUs || mode == generate.Management {
		hook, one = hookOf(c, cfg, stderr)
	}
	where := whereOf(c, cfg)
	driver := where.DriverRoot()
	driver.LibraryDirs, driver.ConfigDirs = values(c, "library-search-path"), values(c, "config-search-path")
	return &generation{
		mode: mode, gpus: where, driver: driver, format: format, output: output(c, format), stdout: stdout, stderr: stderr,
		options: generate.Options{
			Vendor: c.String("vendor"), Class: c.String("class"), Names: names, NoAll: c.Bool("no-all-device"), Only: deviceIDs(c),
			HookPath: hook, OneHook: one, LdconfigPath: c.String("ldconfig-path"), Features: features,
		},
	}, nil
}

// output returns the file to write, empty for standard output.
func output(c *cli.Context, f cdifile.Format) string {
	if path := c.String("output"); path != "" {
		return cdifile.WithExtension(path, f)
	}
	return ""
}

// modeOf returns the mode that a value of --mode selects.
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

// namersOf returns the names of devices that the values of --device-name-strategy select.
func namersOf(strategies []string) ([]cdi.Namer, error) {
	known := map[string]cdi.Namer{"index": cdi.ByIndex, "uuid": cdi.ByUUID, "type-index": cdi.ByType, "pci-bus-id": cdi.ByPCI}
	var out []cdi.Namer
	for _, s := range strategies {
		namer, ok := known[s]
		if !ok {
			return nil, fmt.Errorf("flag --device-name-strategy: %q: must be index, uuid, pci-bus-id or type-index", s)
		}
		out = append(out, namer)
	}
	return out, nil
}

// deviceIDs returns the GPUs to describe, none for all.
func deviceIDs(c *cli.Context) []string {
	ids := values(c, "device-id")
	if slices.Contains(ids, "all") {
		return nil
	}
	return ids
}

// csvErr rejects flags that only mean something for Tegra.
func csvErr(c *cli.Context) error {
	for _, name := range []string{"csv.file", "csv.ignore-pattern", "csv.compat-container-root"} {
		if c.IsSet(name) {
			return fmt.Errorf("flag --%s: mode csv is not supported: use NVIDIA's nvidia-ctk on Tegra systems", name)
		}
	}
	return nil
}

// values returns the values of a flag, also those of one value with commas.
func values(c *cli.Context, flag string) []string {
	var out []string
	for _, v := range c.StringSlice(flag) {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

func without(list []string, value string) []string {
	return slices.DeleteFunc(list, func(v string) bool { return v == value })
}
