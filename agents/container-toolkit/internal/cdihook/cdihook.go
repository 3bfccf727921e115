package cdihook

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"outrigger.dev/agents/container-toolkit/internal/oci"
	"outrigger.dev/agents/container-toolkit/internal/rootfs"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
	"outrigger.dev/pkg/version"
)

// timeout limits the run time of a hook, in case a file system of the container does not answer. A
// hook usually takes a few milliseconds.
const timeout = 30 * time.Second

// Main runs the program. name is its name in messages. args has flags, the name of a hook, and the
// flags of the hook. Main returns the exit code. It only warns about an unknown hook, so that the
// spec of a later version still works.
func Main(name string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	var quiet, showVersion bool
	globalFlags(set, &quiet)
	set.BoolVar(&showVersion, "version", false, "print the version")
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		usage(stderr, name, set)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "%s: %s; see %q\n", name, text.OneLine(err), name+" --help")
		return 2
	case showVersion:
		fmt.Fprintln(stdout, version.Line(name))
		return 0
	case set.NArg() == 0:
		usage(stderr, name, set)
		return 0
	}
	warn := func(w string) {
		if !quiet {
			fmt.Fprintf(stderr, "%s: warning: %s\n", name, text.Printable(w))
		}
	}
	for _, h := range hooks() {
		if h.name != set.Arg(0) {
			continue
		}
		if err := h.run(set.Args()[1:], &quiet, stdin, stderr, warn); err != nil {
			fmt.Fprintf(stderr, "%s: %s\n", name, text.OneLine(err))
			return 1
		}
		return 0
	}
	warn(fmt.Sprintf("unknown hook %q: doing nothing", set.Arg(0)))
	return 0
}

// globalFlags adds the flags that are accepted before and after the name of a hook, as in NVIDIA's
// nvidia-cdi-hook and nvidia-ctk.
func globalFlags(set *flag.FlagSet, quiet *bool) {
	set.Bool("debug", false, "accepted for NVIDIA's specs")
	set.Bool("d", false, "the same as --debug")
	set.BoolVar(quiet, "quiet", *quiet, "print errors only")
	set.String("config", "", "not used: hooks read no config `FILE`")
}

func usage(w io.Writer, name string, set *flag.FlagSet) {
	fmt.Fprintf(w, "Usage: %s [FLAGS] HOOK [FLAGS OF THE HOOK]\n\nA hook adapts a container to the GPU driver that is mounted into it. Container runtimes\nrun it at createContainer, with the container's state on standard input.\n\nHooks:\n", name)
	for _, h := range hooks() {
		fmt.Fprintf(w, "  %-34s%s\n", h.name, h.usage)
	}
	fmt.Fprintln(w, "\nFlags:")
	set.SetOutput(w)
	set.PrintDefaults()
}

// run does the work of the hook. It returns an error if that takes longer than timeout.
func (h hook) run(args []string, quiet *bool, stdin io.Reader, help io.Writer, warn func(string)) error {
	j, stateFile, err := h.parse(args, quiet, help)
	if err != nil || j.empty() {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- j.runIn(stateFile, stdin, warn) }()
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return fmt.Errorf("%s: a file system of the container did not answer within %s", h.name, timeout)
	}
}

// runIn does the work in the container whose state is in a file or on stdin.
func (j Job) runIn(stateFile string, stdin io.Reader, warn func(string)) error {
	if stateFile != "" {
		f, err := hostfs.Open(stateFile)
		if err != nil {
			return err
		}
		defer f.Close()
		stdin = f
	}
	state, err := oci.ReadState(stdin)
	if err != nil {
		return err
	}
	spec, err := oci.Load(state.Bundle)
	if err != nil {
		return err
	}
	if spec.Root() == "" {
		return fmt.Errorf("config.json in %s has no root.path", state.Bundle)
	}
	root, err := rootfs.Open(spec.Root())
	if err != nil {
		return err
	}
	defer root.Close()
	return j.Run(root, warn)
}
