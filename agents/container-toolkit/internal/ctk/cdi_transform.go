package ctk

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/urfave/cli/v2"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"outrigger.dev/agents/container-toolkit/internal/cdifile"
	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/pkg/hostfs"
)

// maxSpec is more than any spec of a node has.
const maxSpec = 16 << 20

// transformCommand returns "nvidia-ctk cdi transform".
func transformCommand(stdin io.Reader, stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "transform",
		Usage: "change CDI specs",
		Subcommands: []*cli.Command{{
			Name:  "root",
			Usage: "replace a folder in the paths of a CDI spec",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "from", EnvVars: []string{"NVIDIA_CTK_CDI_TRANSFORM_ROOT_FROM"}, Usage: "`FOLDER` to replace"},
				&cli.StringFlag{Name: "to", EnvVars: []string{"NVIDIA_CTK_CDI_TRANSFORM_ROOT_TO"}, Usage: "`FOLDER` to put in its place"},
				&cli.StringFlag{Name: "input", Value: "-", Usage: "`FILE` of the spec; - for standard input"},
				&cli.StringFlag{Name: "output", Usage: "`FILE` for the result; none for standard output"},
				&cli.StringFlag{Name: "relative-to", Value: "host", Usage: "which paths to change: host or container"},
			},
			Action: func(c *cli.Context) error { return transform(c, stdin, stdout) },
		}},
	}
}

func transform(c *cli.Context, stdin io.Reader, stdout io.Writer) error {
	r, err := rebaseOf(c)
	if err != nil {
		return err
	}
	data, err := readInput(c.String("input"), stdin)
	if err != nil {
		return err
	}
	spec, err := inject.Parse(data)
	if err != nil {
		return fmt.Errorf("read CDI spec %s: %w", c.String("input"), err)
	}
	r.spec(spec)
	if spec.Version, err = specs.MinimumRequiredVersion(spec); err != nil {
		return fmt.Errorf("choose version: %w", err)
	}
	name := "yaml"
	if strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		name = "json"
	}
	format, err := cdifile.FormatOf(c.String("output"), name)
	if err != nil {
		return err
	}
	out, err := cdifile.Encode(spec, format)
	if err != nil {
		return err
	}
	if file := c.String("output"); file != "" {
		return writeOutput(cdifile.WithExtension(file, format), out)
	}
	_, err = stdout.Write(out)
	return err
}

// readInput reads a file, or standard input for "-".
func readInput(name string, stdin io.Reader) ([]byte, error) {
	if name != "-" {
		return hostfs.ReadFile(name, maxSpec)
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxSpec+1))
	if err == nil && len(data) > maxSpec {
		err = fmt.Errorf("standard input has more than %d bytes", maxSpec)
	}
	return data, err
}

// rebase replaces the folder from by to in paths of the host, or of containers.
type rebase struct {
	from, to  string
	container bool
}

// rebaseOf reads the flags of "cdi transform root".
func rebaseOf(c *cli.Context) (rebase, error) {
	r := rebase{from: path.Clean(c.String("from")), to: path.Clean(c.String("to")), container: c.String("relative-to") == "container"}
	var errs []error
	for _, flag := range []string{"from", "to"} {
		if !path.IsAbs(c.String(flag)) {
			errs = append(errs, fmt.Errorf("flag --%s: %q: must be an absolute path", flag, c.String(flag)))
		}
	}
	if v := c.String("relative-to"); v != "host" && v != "container" {
		errs = append(errs, fmt.Errorf("flag --relative-to: %q: must be host or container", v))
	}
	return r, errors.Join(errs...)
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

// hook changes the path of a hook, which the runtime executes on the host, except that
// startContainer hooks are programs of the container. The arguments of hooks that work in
// a container are paths in it.
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

// path returns p with the folder replaced, if it is below it.
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
