// Package shim is nvidia-container-runtime, an OCI runtime. If a container asks for GPUs, it adds
// them to the container's config.json. Then it executes the low-level runtime with the same
// arguments.
//
// It runs several times for each container of a node. It reads config.toml, and config.json when a
// container is created. It reads CDI specs only for a container with GPUs. It does not call the
// driver.
package shim

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/oci"
	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/version"
)

// Process has the parts of the process that Run uses.
type Process struct {
	Args           []string
	Getenv         func(string) string
	Environ        func() []string
	Stdout, Stderr io.Writer
	// Exec replaces the process by another program. It returns only on an error.
	Exec func(path string, args, env []string) error
}

// Run is the program. It returns the exit code if it cannot execute the low-level runtime. The
// program names nvidia-container-runtime.cdi and .legacy select the mode.
func Run(p Process) int {
	s := shim{Process: p, log: logger{call: parseCall(p.Args[1:]), level: levelWarn}}
	if err := s.run(); err != nil {
		message := "nvidia-container-runtime: " + err.Error()
		s.log.log(levelError, message)
		fmt.Fprintln(p.Stderr, message)
	}
	return 1
}

type shim struct {
	Process
	log logger
	cfg *toolconfig.Config
	// configPath is the path of config.toml.
	configPath string
}

func (s *shim) run() error {
	if err := s.configure(); err != nil {
		return err
	}
	c := s.log.call
	accept := anyRuntime
	if !c.creates() {
		// The list of runtimes can change while a container runs.
		accept = func(file string) bool { return hasCreated(file, c.root, s.Args[1:]) }
	}
	runtime, err := findRuntime(s.cfg.Runtime.Runtimes, s.Getenv("PATH"), accept)
	if err != nil {
		return err
	}
	if c.version {
		fmt.Fprintf(s.Stdout, "NVIDIA Container Runtime version %s\n", version.String())
	}
	if c.creates() {
		if err := s.modify(c.bundle); err != nil {
			return err
		}
	}
	s.log.log(levelDebug, "exec "+runtime)
	args := append([]string{runtime}, s.Args[1:]...)
	if err := s.Exec(runtime, args, s.Environ()); err != nil {
		return fmt.Errorf("start the low-level runtime %s: %w", runtime, err)
	}
	return nil
}

// configure reads config.toml. If the file is not valid, only a call that creates a container fails.
// Engines must be able to stop and delete the containers that exist.
func (s *shim) configure() error {
	s.configPath = toolconfig.Path("", s.Getenv, toolconfig.Beside())
	cfg, warnings, err := toolconfig.Load(s.configPath)
	switch {
	case err == nil:
	case s.log.call.creates():
		return err
	default:
		cfg = toolconfig.Readable(s.configPath)
	}
	switch filepath.Ext(filepath.Base(s.Args[0])) {
	case ".cdi":
		cfg.Runtime.Mode = toolconfig.ModeCDI
	case ".legacy":
		cfg.Runtime.Mode = toolconfig.ModeLegacy
	}
	s.cfg = cfg
	if err := s.log.open(cfg.Runtime.Debug, cfg.Runtime.LogLevel); err != nil {
		// A container can start without a log file.
		s.log.log(levelWarn, err.Error())
	}
	if err != nil {
		s.log.log(levelWarn, err.Error())
	}
	if s.log.call.creates() {
		for _, w := range warnings {
			s.log.log(levelInfo, w)
		}
	}
	return nil
}

// modify adds GPUs to the config.json of a bundle if the container asks for them.
func (s *shim) modify(bundle string) error {
	if bundle == "" {
		bundle = "."
	}
	spec, err := oci.Load(bundle)
	if err != nil {
		return err
	}
	target := inject.Target{User: spec.User(), UserNamespace: spec.UserNamespace(), Stat: HostNode, Public: HostPublic}
	plan, err := Make(request.FromSpec(spec), target, s.cfg)
	s.trace(plan)
	for _, w := range plan.Warnings {
		s.log.log(levelWarn, w)
	}
	if err != nil || plan.Mode == "" {
		return err
	}
	if plan.Mode == toolconfig.ModeLegacy {
		err = s.addHook(spec, plan)
	} else {
		// Docker adds the hook for --gpus. It would add the GPUs a second time.
		err = spec.RemovePrestart(isHook)
	}
	if err != nil {
		return err
	}
	if err := spec.Apply(plan.Edits); err != nil {
		return err
	}
	return spec.Save()
}

// trace logs the decisions of a plan.
func (s *shim) trace(p *Plan) {
	if s.log.level < levelInfo {
		return
	}
	for _, d := range p.Request.Decisions {
		s.log.log(levelInfo, fmt.Sprintf("%s: %s (%s)", d.About, d.Result, d.Reason))
	}
	if p.Mode != "" {
		s.log.log(levelInfo, fmt.Sprintf("mode: %s (%s)", p.Mode, p.Reason))
	}
	for _, d := range p.Devices {
		s.log.log(levelInfo, fmt.Sprintf("device: %s=%s (%s)", d.File.Spec.Kind, d.Name, d.File.Path))
	}
}

// addHook adds the prestart hook to the edits of a container, unless the container has the hook.
func (s *shim) addHook(spec *oci.Spec, p *Plan) error {
	if slices.ContainsFunc(spec.Prestart(), isHook) {
		return nil
	}
	path, err := FindHook(s.cfg.Hook.Path, s.Getenv("PATH"))
	if err != nil {
		return err
	}
	args := []string{filepath.Base(path)}
	if s.Getenv("NVIDIA_CTK_CONFIG_FILE_PATH") != "" || s.Getenv("XDG_CONFIG_HOME") != "" {
		// The hook does not inherit these variables.
		args = append(args, "-config", s.configPath)
	}
	p.Edits.Hooks = append(p.Edits.Hooks, oci.Hook{Phase: "prestart", Hook: specs.Hook{
		Path: path,
		Args: append(args, "prestart"),
		// Without variables, runtimes pass the environment of the container.
		Env: []string{"PATH=" + defaultPath},
	}})
	return nil
}

// isHook reports whether a hook is the prestart hook of a container toolkit.
func isHook(h specs.Hook) bool {
	name := filepath.Base(h.Path)
	return name == "nvidia-container-runtime-hook" || name == "nvidia-container-toolkit"
}

// Main calls Run with the process of this program.
func Main(exec func(path string, args, env []string) error) int {
	return Run(Process{
		Args: os.Args, Getenv: os.Getenv, Environ: os.Environ, Stdout: os.Stdout, Stderr: os.Stderr, Exec: exec,
	})
}
