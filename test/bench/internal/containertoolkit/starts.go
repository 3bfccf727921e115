package containertoolkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"outrigger.dev/test/bench/internal/report"
)

// starts measures the time that the tools add to the start of a container: with a low-level runtime
// that does nothing, for the hooks alone, and with runc.
func (b *Bench) starts(ctx context.Context) (err error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		b.Report.Skip("starts of containers", "this machine has no gcc")
		return nil
	}
	s, err := newScene(ctx, b.Node, gcc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(s.withLog(err), s.close()) }()
	for _, g := range []struct {
		figures func(context.Context) ([]figure, error)
		// rounds is the number of rounds per run. Short starts vary more, and need more rounds.
		rounds, batches int
	}{
		{s.runtimeFigures, 10, 3},
		{s.hookFigures, 4, 2},
	} {
		figures, err := g.figures(ctx)
		if err != nil {
			return err
		}
		if err := b.group(ctx, g.rounds*b.Runs, g.batches, figures); err != nil {
			return err
		}
	}
	if s.runc == "" {
		b.Report.Skip("starts of containers with runc", "this machine has no runc")
		return nil
	}
	figures, err := s.runcFigures(ctx)
	if err != nil {
		return err
	}
	return b.group(ctx, b.Runs, 1, figures)
}

const shim = "nvidia-container-runtime"

// runtimeFigures returns the figures of an engine's calls of the runtime, with the low-level
// runtime that does nothing.
func (s *scene) runtimeFigures(ctx context.Context) ([]figure, error) {
	const alone = "C program in place of runc"
	out := []figure{{name: alone, prepare: func(ctx context.Context, i int) (*start, error) {
		return s.create(ctx, call{program: s.stub, command: "create"}, i)
	}}}
	gpu := []string{visible}
	for _, f := range []struct {
		name, command, mode string
		env                 []string
		// adds is a text that the runtime adds to config.json.
		adds string
		goal report.Goal
	}{
		{"state", "state", "auto", nil, "", report.Goal{Peer: "3.9 ms", Target: 1.5}},
		{"create, no GPU", "create", "auto", nil, "", report.Goal{Peer: "7.8 ms", Target: 2}},
		{"create, CDI", "create", "cdi", gpu, "nvidia-cdi-hook", report.Goal{Peer: "12.8 ms", Target: 3}},
		{"create, default mode", "create", "auto", gpu, "nvidia-cdi-hook", report.Goal{Peer: "94 ms", Target: 5}},
		{"create, legacy", "create", "legacy", gpu, "nvidia-container-runtime-hook", report.Goal{Target: 3}},
	} {
		config, err := s.config(ctx, "stub-"+f.mode, s.stub, f.mode)
		if err != nil {
			return nil, err
		}
		out = append(out, figure{name: shim + " " + f.name, goal: f.goal, base: alone, prepare: func(ctx context.Context, i int) (*start, error) {
			st, err := s.create(ctx, call{config, s.tool(shim), f.command, f.env}, i)
			if err == nil {
				st.check = func() error { return s.checkConfig(i, f.adds) }
			}
			return st, err
		}})
	}
	return out, nil
}

// visible is the variable that requests a GPU.
const visible = "NVIDIA_VISIBLE_DEVICES=0"

// call is a call of a runtime for a container with variables.
type call struct {
	config, program, command string
	env                      []string
}

// create returns a start for a bundle without a root file system.
func (s *scene) create(ctx context.Context, c call, i int) (*start, error) {
	dir, id, err := s.bundle(i, "", c.env...)
	if err != nil {
		return nil, err
	}
	return &start{cmd: s.command(ctx, c.config, c.program, s.arguments(dir, c.command, id)...)}, nil
}

// arguments returns the arguments of containerd's calls of a runtime.
func (s *scene) arguments(bundle, command, id string) []string {
	args := []string{"--root", s.path("state"), "--log", filepath.Join(bundle, "log.json"), "--log-format", "json", command}
	if command == "create" {
		args = append(args, "--bundle", bundle, "--pid-file", filepath.Join(bundle, "pid"))
	}
	return append(args, id)
}

// checkConfig returns an error unless the config.json of container number i contains text. If text
// is empty, the runtime must not have changed the file.
func (s *scene) checkConfig(i int, text string) error {
	path := s.path(fmt.Sprintf("containers/outrigger-bench-%d/config.json", i))
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if has := strings.Contains(string(data), "nvidia-c"); has != (text != "") || !strings.Contains(string(data), text) {
		return fmt.Errorf("check %s: want %q in it", path, text)
	}
	return nil
}
