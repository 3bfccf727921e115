// Package prestart is nvidia-container-runtime-hook, the OCI prestart hook. It derives the request
// of a container, and then executes nvidia-container-cli, which gives the GPUs to the container. It
// has the flags, commands and messages of NVIDIA's hook.
package prestart

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"outrigger.dev/agents/container-toolkit/internal/oci"
	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/version"
)

// program is the name in messages, even if the file has another name.
const program = "nvidia-container-runtime-hook"

// Main runs the hook. args[0] is the name of the program. Main returns the exit code. It does not
// return if it executes nvidia-container-cli.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := run(args[1:], stdin, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return 1
	}
	return 0
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet(program, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Bool("debug", false, "no effect: nvidia-container-cli.debug in config.toml names the log")
	showVersion := f.Bool("version", false, "print the version")
	config := f.String("config", "", "the config `FILE` (config.toml)")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return help(f, stdout)
	case err != nil:
		return fmt.Errorf("%w; see %q", err, program+" -help")
	case *showVersion:
		_, err := fmt.Fprintf(stdout, "NVIDIA Container Runtime Hook version %s\n", version.String())
		return err
	}
	switch f.Arg(0) {
	case "prestart":
		return prestart(toolconfig.Path(*config, os.Getenv, toolconfig.Beside()), stdin, stderr)
	case "poststart", "poststop":
		return nil
	case "":
		return fmt.Errorf("no command; see %q", program+" -help")
	}
	return fmt.Errorf("unknown command %q; see %q", f.Arg(0), program+" -help")
}

func help(f *flag.FlagSet, w io.Writer) error {
	fmt.Fprintf(w, "Usage: %s [FLAGS] COMMAND\n\nFlags:\n", program)
	f.SetOutput(w)
	f.PrintDefaults()
	_, err := fmt.Fprint(w, `
Commands:
  prestart    give a container the GPUs that it requests; its state is on standard input
  poststart   do nothing
  poststop    do nothing
`)
	return err
}

// prestart executes nvidia-container-cli. It returns nil if the container does not ask for GPUs.
func prestart(configPath string, stdin io.Reader, stderr io.Writer) error {
	cfg, warnings, err := toolconfig.Load(configPath)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintf(stderr, "%s: %s\n", program, w)
	}
	state, err := oci.ReadState(stdin)
	if err != nil {
		return err
	}
	spec, err := oci.Load(state.Bundle)
	if err != nil {
		return err
	}
	container := request.FromSpec(spec)
	// Only the runtime supports annotations, which ask for CDI devices. This hook does not.
	container.Annotations = nil
	asked, err := request.Derive(container, cfg)
	if err != nil || !asked.GPU() {
		return err
	}
	if err := checkMode(cfg, asked); err != nil {
		return err
	}
	if state.PID <= 0 || spec.Root() == "" {
		return errors.New("find the container: its state has no pid, or its config.json no root.path")
	}
	cli, err := findCLI(cfg.CLI.Path)
	if err != nil {
		return err
	}
	argv := append([]string{cli}, arguments(cfg, asked, state.PID, spec.Root())...)
	// The environment of this process is not passed on, because it may be the environment of the
	// container, and CUDA_MPS_PIPE_DIRECTORY names a folder of the host to mount.
	env := append([]string{"PATH=" + path}, cfg.CLI.Environment...)
	return fmt.Errorf("run %s: %w", cli, syscall.Exec(cli, argv, env))
}

// checkMode returns an error for a container that nvidia-container-runtime has to start. People and
// tools search for the text of NVIDIA's hook, so the error repeats it: assertModeIsLegacy in
// cmd/nvidia-container-runtime-hook/hook_config.go of NVIDIA/nvidia-container-toolkit 1.20.
func checkMode(cfg *toolconfig.Config, asked *request.Request) error {
	if cfg.Hook.SkipModeDetection {
		return nil
	}
	// An existing CDI spec is not an error. A node can use this hook and CDI specs.
	mode, reason := asked.Mode(cfg.Runtime.Mode, func(string) bool { return false }, cfg.Runtime.CDI.DefaultKind)
	if mode == toolconfig.ModeLegacy {
		return nil
	}
	return fmt.Errorf("the mode is %s (%s): invoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) is not supported. "+
		"Please use the NVIDIA Container Runtime (e.g. specify the --runtime=nvidia flag) instead", mode, reason)
}

// path is the PATH of nvidia-container-cli.
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// cliName is the name of the program that the hook executes.
const cliName = "nvidia-container-cli"

// findCLI returns the path of nvidia-container-cli. It uses an absolute path from config.toml, then
// the folder of this program, then the folders of the system. It does not search PATH, because PATH
// may come from the container.
func findCLI(configured string) (string, error) {
	if filepath.IsAbs(configured) {
		return configured, nil
	}
	name := cliName
	if configured != "" {
		name = filepath.Base(configured)
	}
	var dirs []string
	if self, err := os.Readlink("/proc/self/exe"); err == nil {
		dirs = append(dirs, filepath.Dir(self))
	}
	dirs = append(dirs, filepath.SplitList(path)...)
	for _, dir := range dirs {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("find %s: it is in none of %q: install it, or set nvidia-container-cli.path in config.toml", name, dirs)
}
