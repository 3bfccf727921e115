package containertoolkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// runcFigures returns the figures of containers that runc creates, with all hooks.
func (s *scene) runcFigures(ctx context.Context) ([]figure, error) {
	const alone = "runc create"
	out := []figure{{name: alone, prepare: func(ctx context.Context, i int) (*start, error) {
		return s.container(ctx, call{program: s.runc}, i)
	}}}
	for _, f := range []struct {
		name, mode string
		env        []string
	}{
		{"no GPU", "auto", nil},
		{"CDI with its hook", "auto", []string{visible}},
		{"legacy with hook and CLI", "legacy", []string{visible}},
	} {
		config, err := s.config(ctx, "runc-"+f.mode, s.runc, f.mode)
		if err != nil {
			return nil, err
		}
		out = append(out, figure{
			name: shim + " and runc create, " + f.name, base: alone,
			prepare: func(ctx context.Context, i int) (*start, error) {
				st, err := s.container(ctx, call{config: config, program: s.tool(shim), env: f.env}, i)
				if err == nil && len(f.env) > 0 {
					st.check = func() error { return s.checkDriver(i) }
				}
				return st, err
			},
		})
	}
	return out, nil
}

// container returns the start that creates a container with the image.
func (s *scene) container(ctx context.Context, c call, i int) (*start, error) {
	dir, id, err := s.bundle(i, s.path("image"), c.env...)
	if err != nil {
		return nil, err
	}
	return &start{
		cmd: s.command(ctx, c.config, c.program, s.arguments(dir, "create", id)...),
		clean: func() error {
			err := s.command(context.WithoutCancel(ctx), "", s.runc, "--root", s.path("state"), "delete", "--force", id).Run()
			if err != nil {
				err = fmt.Errorf("delete container %s: %w", id, err)
			}
			return errors.Join(err, os.RemoveAll(dir))
		},
	}, nil
}

// checkDriver returns an error if the process of container number i does not see the driver.
func (s *scene) checkDriver(i int) error {
	pid, err := os.ReadFile(s.path(fmt.Sprintf("containers/outrigger-bench-%d/pid", i)))
	if err != nil {
		return err
	}
	return hasDriver(filepath.Join("/proc", strings.TrimSpace(string(pid)), "root"))
}
