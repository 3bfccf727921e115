// Package agent is the chassis of every node agent: it parses the command
// line, makes the logger, serves /healthz, /readyz and /metrics, and turns
// signals into the end or the reload of the agent. An agent's main.go holds
// one call of Main; all that is special to the agent hangs in an App.
//
// It leaves the garbage collector alone: the heap of an idle agent is below its
// first threshold, and most of the resident memory is the binary itself, so that
// GOGC=25 was measured to save nothing. What saves memory is fewer packages.
package agent

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/gpu"
)

// App describes an agent to Main.
type App struct {
	// Name of the binary, for example "device-plugin".
	Name string
	// Usage is what the agent does, in half a sentence.
	Usage string
	// Flags of the agent, beside those that every agent has (--listen,
	// --log-format, --log-level). Take the host's from HostFlags or GPUFlags.
	Flags []cli.Flag
	// Aliases maps flag names that users know from elsewhere to flags of the
	// agent. They are accepted and not shown. The names that NVIDIA gives to
	// flags of HostFlags need no entry.
	Aliases map[string]string
	// Listen is the default of --listen, for example ":9410"; "" serves nothing.
	Listen string
	// New reads the flags, once, into the agent's own configuration and makes
	// the agent. It starts nothing, and blocks only for a bounded time, to learn
	// its configuration. A bad value is reported with BadFlag or Usagef.
	New func(c *cli.Context, log *slog.Logger) (*Agent, error)
	// Source opens the GPU source that the flags name, for the sub-command
	// "snapshot". An agent that has none leaves it nil.
	Source func(c *cli.Context, log *slog.Logger) (gpu.Source, error)
	// Commands are sub-commands beside version, snapshot and wait. Their
	// Actions get the logger from Logger, and c.Context ends with a signal.
	Commands []*cli.Command
}

// Agent is an agent that is ready to run. Only Run is required.
type Agent struct {
	// Once says that Run ends by itself: nothing is served meanwhile.
	Once bool
	// Run does the agent's work until ctx ends and then returns within a
	// second, with nil or ctx's error. Any other error ends the process.
	Run func(ctx context.Context) error
	// Ready returns nil while the agent's output exists on this node, and
	// otherwise what it waits for. It answers /readyz, must not block, and is
	// called from other goroutines than Run's. Nil means always ready.
	Ready func() error
	// Health holds checks by name; one that returns an error makes /healthz
	// fail, upon which the kubelet restarts the agent. Same rules as Ready.
	Health map[string]func() error
	// Reload is called for each SIGHUP, one call at a time, beside Run. Its
	// error is logged, and the agent goes on with what it had.
	Reload func(ctx context.Context) error
	// Collectors are served on /metrics, beside build info, Go and process.
	Collectors []prometheus.Collector
	// Config is the effective configuration for the first log line; nil logs
	// the values of all flags.
	Config any
}

// Main runs the agent that the command line asks for and ends the process:
// with 0, with 1 for an error while running, with 2 for a wrong command line.
func Main(app App) {
	os.Exit(Exec(context.Background(), app, os.Args, os.Stdout, os.Stderr))
}

// Exec is Main as a function: it runs app with args, of which the first is the
// program's name, and returns the exit code. The end of ctx, SIGTERM and
// SIGINT end the agent; Exec returns at the latest stopLimit after that.
func Exec(ctx context.Context, app App, args []string, stdout, stderr io.Writer) int {
	s := &session{app: app, stdout: stdout, stderr: stderr}
	return s.exec(ctx, args)
}
