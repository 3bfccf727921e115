package ctk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"outrigger.dev/agents/container-toolkit/internal/container"
	"outrigger.dev/agents/container-toolkit/internal/shim"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/driverroot"
)

// parts are the files and device nodes of the host that a container gets, each with its
// first path in the container.
type parts map[string]string

// compare returns a line for each part of the driver that a container gets in the mode cdi,
// and not in the mode legacy, or the other way round.
func compare(p *shim.Plan, cfg *toolconfig.Config) ([]string, error) {
	legacy, err := legacyParts(p, cfg)
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

// showDifference prints what the modes cdi and legacy give a container differently.
func showDifference(w io.Writer, p *shim.Plan, cfg *toolconfig.Config) error {
	if p.Mode != toolconfig.ModeCDI {
		return errors.New("explain: --compare needs a container that gets GPUs in the mode cdi: use --mode cdi")
	}
	lines, err := compare(p, cfg)
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

// legacyParts returns what nvidia-container-cli would give the container of a plan.
func legacyParts(p *shim.Plan, cfg *toolconfig.Config) (parts, error) {
	wanted, err := driverroot.ParseCapabilities(p.Request.Capabilities...)
	if err != nil {
		return nil, err
	}
	r := container.Request{Capabilities: wanted, MIGConfig: p.Request.MIGConfig, MIGMonitor: p.Request.MIGMonitor}
	for _, d := range p.Request.Devices {
		r.Devices = append(r.Devices, d.Names[0])
	}
	for _, number := range p.Request.IMEX {
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		r.IMEX = append(r.IMEX, n)
	}
	where := cmp.Or(cfg.CLI.Root, "/")
	root, err := driverroot.New(driverroot.Config{HostPath: where, CtrPath: where})
	if err != nil {
		return nil, err
	}
	c := container.Config{Driver: root, Proc: "/proc", Specs: container.NewSpecs(cfg.Runtime.CDI.SpecDirs...), Warn: func(string) {}}
	node, err := c.Read()
	if err != nil {
		return nil, err
	}
	plan, err := c.Plan(node, r, false)
	if err != nil {
		return nil, err
	}
	out := parts{}
	for _, n := range plan.Nodes {
		out.add(n.Path, n.Path)
	}
	for _, f := range slices.Concat(plan.Files, plan.Sockets) {
		out.add(f.HostPath, f.Path)
	}
	return out, nil
}

// add adds a part, unless it is there.
func (p parts) add(host, inContainer string) {
	if _, ok := p[host]; !ok {
		p[host] = inContainer
	}
}

// without returns a line for each part that others lack.
func (p parts) without(others parts, note string) []string {
	var out []string
	for _, host := range slices.Sorted(maps.Keys(p)) {
		if _, ok := others[host]; !ok {
			out = append(out, fmt.Sprintf("%s (%s)", p[host], note))
		}
	}
	return out
}
