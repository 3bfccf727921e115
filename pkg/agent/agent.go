// Package agent is the chassis of every node agent: it parses the command line,
// makes the logger, serves /healthz, /readyz and /metrics, and stops or reloads
// the agent on signals. The main.go of an agent is one call of Main; an App
// describes everything that is special to the agent.
//
// It does not tune the garbage collector: the heap of an idle agent is below the
// first threshold, and most of the resident memory is the binary itself, so that
// GOGC=25 saved nothing when it was measured. Fewer packages save memory.
package agent

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/gpu"
)

// App describes an agent to Main.
type App struct {
	// Name of the binary, for example "device-plugin".
	Name string
	// Usage says what the agent does, for the first line of --help.
	Usage string
	// Flags of the agent, in addition to those that every agent has (--listen,
	// --tls-cert-file, --tls-private-key-file, --log-format, --log-level).
	// They set the fields of a value that New and the Commands read, and that belongs to this
	// App alone.
	Flags []cli.Flag
	// Host is what flags of Host.Flags set. It is nil for a program without them.
	Host *Host
	// Listen is the default of --listen, for example ":9410"; "" turns the server off.
	Listen string
	// ListenAliases are other names of --listen, and ListenVariables environment variables that
	// set it too, where LISTEN_ADDRESS does not: those that the flag has in other programs.
	ListenAliases, ListenVariables []string
	// New makes the agent, once the flags are parsed. It starts nothing, and blocks
	// only to read its configuration: for a bounded time, or after a call of Waiting
	// until c.Context ends. It reports a bad value with Usagef. If it is nil, the
	// program has commands only, and prints its help without one.
	New func(c *cli.Context, log *slog.Logger) (*Agent, error)
	// Source opens the GPU source that the flags name, for the command "snapshot".
	// It is nil for an agent without GPUs.
	Source func(c *cli.Context, log *slog.Logger) (gpu.Source, error)
	// StopLimit is how long the agent may take to stop after a signal. Default: 1.8 s.
	StopLimit time.Duration
	// Commands are the agent's own, in addition to version, completion, probe, snapshot and
	// wait. Their Actions get the logger from Logger, and c.Context ends on a signal. A
	// command without an Action runs the agent.
	Commands []*cli.Command
	// UsageCode is the exit code for a wrong command line. Default: 2.
	UsageCode int
}

// Agent is an agent that is ready to run. It ends when all of its parts have returned, or
// one has failed.
type Agent struct {
	// Once says that the parts end by themselves. The agent serves no HTTP then.
	Once bool
	// Parts start in this order, and then run concurrently.
	Parts []Part
	// Owner decides whether Part.Withdraw is called. If it is nil, nothing is withdrawn.
	Owner Owner
	// HTTP changes what the server of --listen serves.
	HTTP HTTP
	// Effective holds settings in effect that differ from the flags, by the keys of
	// SettingKey: a config file may decide, or the node. The first line of the log
	// has the values of all flags, with these instead, and those that have no flag
	// after them. Of two with the same key, the later one counts.
	Effective []slog.Attr
}

// Main runs the agent as the command line says and ends the process with exit code
// 0, with 1 for an error while running, with 2 for a wrong command line, or with that of an
// cli.Exit.
func Main(app App) {
	os.Exit(Exec(context.Background(), app, os.Args, os.Stdout, os.Stderr))
}

// Exec is Main as a function: it runs app with args, the first of which is the
// program's name, and returns the exit code. The end of ctx, SIGTERM and SIGINT
// stop the agent; Exec returns within App.StopLimit after that, or within 22 s more if the agent
// withdraws what it has published.
func Exec(ctx context.Context, app App, args []string, stdout, stderr io.Writer) int {
	s := &session{app: app, stdout: stdout, stderr: stderr, running: map[string]bool{}, withdrawing: make(chan struct{})}
	return s.exec(ctx, args)
}
