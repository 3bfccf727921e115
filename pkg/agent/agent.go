// Package agent runs every node agent: it parses the command line,
// makes the logger, serves /healthz, /readyz and /metrics, and stops or reloads
// the agent on signals. The main.go of an agent is one call of Main; an App
// describes everything that is special to the agent.
//
// It does not tune the garbage collector. The heap of an idle agent is below the first threshold,
// and most of the resident memory is the binary itself: GOGC=25 saved no memory when it was
// measured. Fewer packages save memory.
package agent

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/gpu"
)

// App describes an agent to Main.
type App struct {
	// Name of the binary, for example "device-plugin".
	Name string
	// Usage describes the agent in the first line of --help.
	Usage string
	// Examples are command lines that --help shows.
	Examples []cmdline.Example
	// Flags of the agent, in addition to the flags that every agent has (--listen, --tls-cert-file,
	// --tls-private-key-file, --log-format, --log-level). They set the fields of a value that New
	// and the Commands read, and that only this App uses.
	Flags []cli.Flag
	// Host holds the values of the flags of Host.Flags. It is nil for a program without these
	// flags.
	Host *Host
	// Listen is the default of --listen, for example ":9410"; "" turns the server off.
	Listen string
	// ListenAliases are other names of --listen. ListenVariables are environment variables that set
	// it if LISTEN_ADDRESS does not. Other programs use these names and variables for the same
	// flag.
	ListenAliases, ListenVariables []string
	// New makes the agent after the flags are parsed. It starts nothing. It blocks only to read its
	// configuration: for a bounded time, or after a call of Waiting until c.Context ends. It
	// reports a bad value with Usagef. If New is nil, the program only has commands, and prints its
	// help without a command.
	New func(c *cli.Context, log *slog.Logger) (*Agent, error)
	// Source opens the GPU source that the flags name, for the command "snapshot".
	// It is nil for an agent without GPUs.
	Source func(c *cli.Context, log *slog.Logger) (gpu.Source, error)
	// StopLimit is how long the agent may take to stop after a signal. Default: 1.8 s.
	StopLimit time.Duration
	// Commands of the agent, in addition to version, completion, probe, snapshot and wait. Their
	// Actions get the logger from Logger, and c.Context ends on a signal. A command without an
	// Action runs the agent.
	Commands []*cli.Command
	// UsageCode is the exit code for a wrong command line. Default: 2.
	UsageCode int
}

// Agent is an agent that is ready to run. It ends when all of its parts have returned, or when one
// has failed.
type Agent struct {
	// Once says that the parts end by themselves. The agent serves no HTTP then.
	Once bool
	// Parts start in this order, and then run concurrently.
	Parts []Part
	// Owner decides whether Part.Withdraw is called. If it is nil, Withdraw is never called.
	Owner Owner
	// HTTP changes the content of the server of --listen.
	HTTP HTTP
	// Effective holds settings in effect that differ from the flags, by the keys of SettingKey,
	// because a config file or the node decided them. The first line of the log has the values of
	// all flags, replaced by these settings, and then the settings without a flag. If two settings
	// have the same key, the later one counts.
	Effective []slog.Attr
}

// Main runs the agent as the command line says and ends the process. The exit code is 0, 1 for an
// error while running, 2 for a wrong command line, or the code of a cli.Exit.
func Main(app App) {
	os.Exit(Exec(context.Background(), app, os.Args, os.Stdout, os.Stderr))
}

// Exec is Main as a function: it runs app with args, which begin with the name of the program, and
// returns the exit code. The end of ctx, SIGTERM and SIGINT stop the agent. Exec returns within
// App.StopLimit after that, or within 22 s more if the agent withdraws its published state.
func Exec(ctx context.Context, app App, args []string, stdout, stderr io.Writer) int {
	s := &session{app: app, stdout: stdout, stderr: stderr, running: map[string]bool{}, withdrawing: make(chan struct{})}
	return s.exec(ctx, args)
}
