package ctk

import (
	"fmt"
	"path"
	"strings"

	"github.com/urfave/cli/v2"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/agents/container-toolkit/internal/cdifile"
	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/hostfs"
)

// maxSpec is larger than any spec of a node.
const maxSpec = 16 << 20

// transformCommand returns "nvidia-ctk cdi transform".
func (p *program) transformCommand() *cli.Command {
	t := &transformation{program: p}
	return &cli.Command{
		Name:  "transform",
		Usage: "change CDI specs",
		Subcommands: []*cli.Command{{
			Name:  "root",
			Usage: "replace a folder in the paths of a CDI spec",
			Flags: []cli.Flag{
				cmdline.Absolute(&cli.PathFlag{Name: "from", EnvVars: []string{"NVIDIA_CTK_CDI_TRANSFORM_ROOT_FROM"}, Destination: &t.from, Usage: "`FOLDER` to replace"}),
				cmdline.Absolute(&cli.PathFlag{Name: "to", EnvVars: []string{"NVIDIA_CTK_CDI_TRANSFORM_ROOT_TO"}, Destination: &t.to, Usage: "`FOLDER` that replaces it"}),
				&cli.StringFlag{Name: "input", Value: "-", Destination: &t.input, Usage: "`FILE` of the spec; - for standard input"},
				&cli.StringFlag{Name: "output", Destination: &t.output, Usage: "`FILE` for the result; if empty, standard output"},
				cmdline.Enum(&cli.StringFlag{Name: "relative-to", Value: "host", Destination: &t.relativeTo, Usage: "which paths to change: host or container"}, "host", "container"),
			},
			Action: t.run,
		}},
	}
}

// transformation changes one spec. Its fields are the flags of "cdi transform root".
type transformation struct {
	*program

	from, to, relativeTo string
	input, output        string
}

func (t *transformation) run(*cli.Context) error {
	if t.from == "" || t.to == "" {
		return cmdline.Usagef("flags --from and --to: are missing: set the folder to replace, and the folder that replaces it")
	}
	data, err := hostfs.ReadInput(t.input, t.stdin, maxSpec)
	if err != nil {
		return err
	}
	spec, err := inject.Parse(data)
	if err != nil {
		return fmt.Errorf("read CDI spec %s: %w", t.input, err)
	}
	rebase{from: t.from, to: t.to, container: t.relativeTo == "container"}.spec(spec)
	if spec.Version, err = specs.MinimumRequiredVersion(spec); err != nil {
		return fmt.Errorf("choose version: %w", err)
	}
	name := "yaml"
	if strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		name = "json"
	}
	format, err := cdifile.FormatOf(t.output, name)
	if err != nil {
		return err
	}
	out, err := cdifile.Encode(spec, format)
	if err != nil {
		return err
	}
	if t.output != "" {
		return writeOutput(cdifile.WithExtension(t.output, format), out)
	}
	_, err = t.stdout.Write(out)
	return err
}

// rebase replaces one folder by another, in paths of the host or in paths of containers.
type rebase struct {
	from, to  string
	container bool
}

func (r rebase) spec(s *specs.Spec) {
	r.edits(&s.ContainerEdits)
	for i := range s.Devices {
		r.edits(&s.Devices[i].ContainerEdits)
	}
}

func (r rebase) edits(e *specs.ContainerEdits) {
	for _, n := range e.DeviceNodes {
		host := n.HostPath
		if host == "" {
			host = n.Path
		}
		if r.container {
			n.Path = r.path(n.Path)
		} else {
			host = r.path(host)
		}
		if n.HostPath = host; host == n.Path {
			n.HostPath = ""
		}
	}
	for _, m := range e.Mounts {
		if r.container {
			m.ContainerPath = r.path(m.ContainerPath)
		} else {
			m.HostPath = r.path(m.HostPath)
		}
	}
	for _, h := range e.Hooks {
		r.hook(h)
	}
}

// hook changes the path and the arguments of a hook. The path is a path of the host, except for
// startContainer hooks, which are programs of the container. The arguments of startContainer and
// createContainer hooks are paths in the container.
func (r rebase) hook(h *specs.Hook) {
	if (h.HookName == "startContainer") == r.container {
		h.Path = r.path(h.Path)
	}
	if (h.HookName == "startContainer" || h.HookName == "createContainer") != r.container {
		return
	}
	for i, arg := range h.Args {
		parts := strings.Split(arg, "::")
		for j := range parts {
			parts[j] = r.path(parts[j])
		}
		h.Args[i] = strings.Join(parts, "::")
	}
}

// path replaces the folder in p, if p is the folder or a path below it.
func (r rebase) path(p string) string {
	if p == r.from {
		return r.to
	}
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(r.from, "/")+"/")
	if !ok {
		return p
	}
	return path.Join(r.to, rest)
}
