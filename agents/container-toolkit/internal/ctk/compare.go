package ctk

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/shim"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/text"
)

// parts maps the host path of each file and device node that a container gets to its first path in
// the container.
type parts map[string]string

// compare returns a line for each part of the driver that a container gets in only one of the modes
// cdi and legacy.
func compare(ctx context.Context, p *shim.Plan, cfg *toolconfig.Config) ([]string, error) {
	legacy, err := legacyParts(ctx, p, cfg)
	if err != nil {
		return nil, fmt.Errorf("compare with the mode legacy: %w", err)
	}
	modern := parts{}
	for _, d := range p.Edits.Devices {
		modern.add(d.Path, d.Path)
	}
	for _, m := range p.Edits.Mounts {
		modern.add(m.Source, m.Destination)
	}
	lines := modern.without(legacy, "only in the mode cdi")
	return append(lines, legacy.without(modern, "only in the mode legacy")...), nil
}

// showDifference prints the differences between the modes cdi and legacy for a container.
func showDifference(ctx context.Context, w io.Writer, p *shim.Plan, cfg *toolconfig.Config) error {
	if p.Mode != toolconfig.ModeCDI {
		return errors.New("explain: --compare needs a container that gets GPUs in the mode cdi: use --mode cdi")
	}
	lines, err := compare(ctx, p, cfg)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		lines = []string{"the modes cdi and legacy give the same files and device nodes"}
	}
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	return nil
}

// legacyParts returns the parts that nvidia-container-cli would give to the container of a plan. It
// runs that program, so that nvidia-ctk does not need to link package container.
func legacyParts(ctx context.Context, p *shim.Plan, cfg *toolconfig.Config) (parts, error) {
	name := cmp.Or(cfg.CLI.Path, "nvidia-container-cli")
	tool := shim.FindTool(name, os.Getenv("PATH"))
	if tool == "" {
		return nil, fmt.Errorf("there is no program %s: install it, or set nvidia-container-cli.path in config.toml", name)
	}
	args := []string{"--root=" + cmp.Or(cfg.CLI.Root, "/"), "configure", "--dry-run"}
	for _, d := range p.Request.Devices {
		args = append(args, "--device="+d.Names[0])
	}
	for _, number := range p.Request.IMEX {
		args = append(args, "--imex-channel="+number)
	}
	for _, c := range p.Request.Capabilities {
		args = append(args, "--"+c)
	}
	if p.Request.MIGConfig {
		args = append(args, "--mig-config=all")
	}
	if p.Request.MIGMonitor {
		args = append(args, "--mig-monitor=all")
	}
	cmd := exec.CommandContext(ctx, tool, args...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	stdout, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w: %s", tool, err, text.Printable(strings.TrimSpace(problem.String())))
	}
	out := parts{}
	for line := range strings.Lines(string(stdout)) {
		path := strings.TrimSuffix(line, "\n")
		out.add(path, path)
	}
	return out, nil
}

// add adds a part unless it exists.
func (p parts) add(host, inContainer string) {
	if _, ok := p[host]; !ok {
		p[host] = inContainer
	}
}

// without returns a line for each part of p that is not in others.
func (p parts) without(others parts, note string) []string {
	var out []string
	for _, host := range slices.Sorted(maps.Keys(p)) {
		if _, ok := others[host]; !ok {
			out = append(out, fmt.Sprintf("%s (%s)", p[host], note))
		}
	}
	return out
}
