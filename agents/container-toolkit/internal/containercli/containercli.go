// Package containercli is the command line of nvidia-container-cli. It has the commands, flags and
// variables of NVIDIA's nvidia-container-cli.
//
// The program starts once per container, so it uses package flag. A library with commands and
// completion would add a third to its size and to its start time.
package containercli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"outrigger.dev/agents/container-toolkit/internal/container"
	"outrigger.dev/pkg/driverroot"
)

// program is the name in messages, even if the file has another name.
const program = "nvidia-container-cli"

// Main runs nvidia-container-cli. args[0] is the name of the program. Main returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	warn := func(w string) { fmt.Fprintf(stderr, "%s: warning: %s\n", program, w) }
	if err := run(args[1:], stdout, warn); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return 1
	}
	return 0
}

// global holds the flags before the command.
type global struct {
	root, debug *string
	loadModules *bool
	warn        func(string)
}

// command is a command with its flags. run gets the arguments after the flags.
type command struct {
	*flags
	run func(g global, args []string, stdout io.Writer) error
}

func commands() []command {
	return []command{configureCommand(), infoCommand(), listCommand()}
}

func run(args []string, stdout io.Writer, warn func(string)) error {
	f := newFlags("", "COMMAND", "Give GPUs to containers that a runtime has created, and show what the node has for them.")
	g := global{
		warn:        warn,
		root:        f.text("root", "r", "/", "the `FOLDER` in which the driver is installed"),
		debug:       f.text("debug", "d", "", "append the log to `FILE`"),
		loadModules: f.boolean("load-kmods", "k", "load the driver's kernel modules and make its device nodes if they are missing"),
	}
	f.boolean("no-pivot", "n", "no effect: the root file system is never changed")
	f.optional("user", "u", "no effect: no process runs as `UID[:GID]`")
	f.text("ldcache", "l", "", "no effect: the driver root is searched, and its own cache, not `FILE`")
	f.boolean("no-create-imex-channels", "", "no effect: no IMEX channel is created")
	if done, err := f.answer(args, stdout, commands()); done || err != nil {
		return err
	}
	for _, c := range commands() {
		if c.Name() == f.Arg(0) {
			return c.start(g, f.Args()[1:], stdout)
		}
	}
	if f.NArg() == 0 {
		return f.usageError(errors.New("no command: use info, list or configure"))
	}
	return f.usageError(fmt.Errorf("unknown command %q", f.Arg(0)))
}

func (c command) start(g global, args []string, stdout io.Writer) error {
	if done, err := c.answer(args, stdout, nil); done || err != nil {
		return err
	}
	log, err := openLog(*g.debug)
	if err != nil {
		return err
	}
	defer log.close()
	// Runtimes discard the output of a hook that succeeds, so warnings also go to the log.
	warn := g.warn
	g.warn = func(w string) {
		warn(w)
		log.printf("warning: %s", w)
	}
	log.printf("%s %q", c.Name(), args)
	err = c.run(g, c.Args(), stdout)
	if err != nil {
		err = fmt.Errorf("%s: %w", c.Name(), err)
		log.printf("%v", err)
		if missing, is := errors.AsType[*driverroot.MissingError](err); is {
			log.printf("searched: %s", missing.Searched())
		}
	}
	return err
}

// config returns the config that the flags describe.
func (g global) config() (container.Config, error) {
	root, err := driverroot.New(driverroot.Config{HostPath: *g.root})
	return container.Config{
		Driver:    root,
		Proc:      "/proc",
		RunRoot:   "/run/nvidia",
		Warn:      g.warn,
		Specs:     container.NewSpecs("/etc/cdi", "/var/run/cdi"),
		MPSFolder: os.Getenv("CUDA_MPS_PIPE_DIRECTORY"),
	}, err
}

// read returns the driver and the GPUs of the node. With --load-kmods, it loads the driver's
// modules first.
func (g global) read() (container.Config, *container.Node, error) {
	cfg, err := g.config()
	if err != nil {
		return cfg, nil, err
	}
	if *g.loadModules {
		if err := cfg.LoadModules(context.Background()); err != nil {
			return cfg, nil, err
		}
	}
	n, err := cfg.Read()
	return cfg, n, err
}
