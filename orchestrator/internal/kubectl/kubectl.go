// Package kubectl is the command line of kubectl-outrigger.
package kubectl

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/consult"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
	"outrigger.dev/pkg/text"
)

// name is the name of the plugin in its messages. kubectl runs the program kubectl-outrigger for "kubectl outrigger".
const name = "kubectl-outrigger"

// exitUsage is the exit code for wrong usage. The exit codes for what a command has found are in package doctor.
const exitUsage = 2

// Main runs the plugin and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s := &settings{}
	err := cmdline.Run(ctx, &cli.App{
		Name:  name,
		Usage: "says why GPUs or pods do not work, and shows the nodes and GPUs of a cluster",
		Description: cmdline.Describe("",
			cmdline.Example{Purpose: "Say why GPUs of the cluster cannot be used, and how to fix that", Line: "kubectl outrigger doctor"},
			cmdline.Example{Purpose: "Show the GPUs of all nodes, again and again", Line: "kubectl outrigger top -w"},
			cmdline.Example{Purpose: "Write an archive without secrets for a diagnosis elsewhere", Line: "kubectl outrigger must-gather --dest broken.tar.gz"},
		),
		Writer:    stdout,
		ErrWriter: stderr,
		Flags:     s.flags(),
		Commands:  s.commands(),
		Metadata:  map[string]any{cmdline.OptionsAnywhere: true},
	}, args)
	if err != nil && err.Error() != "" {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", name, text.OneLine(err))
	}
	return cmdline.Code(err, exitUsage)
}

// settings holds the values of the flags.
type settings struct {
	from cluster.Kubeconfig
	// output is the format of the output: table, json or yaml.
	output string
}

func (s *settings) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "kubeconfig", EnvVars: []string{"KUBECONFIG"}, Destination: &s.from.Path, Category: category.Kubernetes,
			Usage: "kubeconfig `FILE`; by default ~/.kube/config",
		},
		&cli.StringFlag{Name: "context", EnvVars: []string{"OUTRIGGER_CONTEXT"}, Destination: &s.from.Context, Category: category.Kubernetes, Usage: "`CONTEXT` of the kubeconfig"},
		cmdline.Enum(&cli.StringFlag{
			Name: "output", Aliases: []string{"o"}, EnvVars: []string{"OUTRIGGER_OUTPUT"}, Value: "table", Destination: &s.output,
			Usage: "output `FORMAT`: table, json or yaml",
		}, "table", "json", "yaml"),
	}
}

// commands returns the commands. Each has a file in this package.
func (s *settings) commands() []*cli.Command {
	return []*cli.Command{
		consult.Command(consult.Config{From: func() cluster.Kubeconfig { return s.from }, Agent: name, Output: &s.output, Flags: []cli.Flag{&cli.StringFlag{
			Name: "namespace", Aliases: []string{"n"}, EnvVars: []string{"OUTRIGGER_POD_NAMESPACE"}, Category: category.Kubernetes,
			Usage: "`NAMESPACE` of the argument pod/NAME; by default the namespace of the kubeconfig",
		}}}),
		s.statusCommand(),
		s.topCommand(),
		s.gatherCommand(),
		s.migrateCommand(),
		s.simCommand(),
		s.validateCommand(),
	}
}

// open returns a client of the cluster. It does not connect.
func (s *settings) open() (*cluster.Client, error) {
	return cluster.Open(s.from, name)
}
