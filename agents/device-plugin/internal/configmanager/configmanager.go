// Package configmanager replaces the config manager of NVIDIA's chart. The chart runs a config
// manager next to each agent: it selects a config file by the node's label, and copies it to
// the path of the agent's config. Our agents select the file themselves with --config-dir, but
// the containers of NVIDIA's chart know only that path.
package configmanager

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/kube"
)

// Name is the name of the program in NVIDIA's chart.
const Name = "config-manager"

// settings holds the values of the flags.
type settings struct {
	from    configfile.File
	cluster cluster.Settings
	// to is the file to write.
	to   string
	once bool
	// labels is the source of the node's labels. If it is nil, the API server is the source.
	labels configfile.Labels
}

// App describes the config manager.
func App() agent.App { return newApp(&settings{}) }

func newApp(s *settings) agent.App {
	return agent.App{
		Name:  Name,
		Usage: "writes the config file that the node's label selects, for the chart of NVIDIA's device plugin",
		Examples: []cmdline.Example{{
			Purpose: "Write the file that the label selects, and follow the label",
			Line:    "config-manager --node-name=node1 --config-file-srcdir=/available-configs --config-file-dst=/config/config.yaml",
		}},
		Flags: slices.Concat(s.from.Flags(""), []cli.Flag{s.cluster.NodeNameFlag(), s.cluster.KubeconfigFlag()}, s.flags()),
		New:   s.newAgent,
	}
}

// flags returns the flags of NVIDIA's config manager. NVIDIA's chart sets their environment
// variables.
func (s *settings) flags() []cli.Flag {
	ignored := func(name, variable string) cli.Flag {
		return &cli.StringFlag{
			Name: name, EnvVars: []string{variable}, Category: category.NoEffect,
			Usage: "accepted and ignored: the agents notice a changed file without a signal",
		}
	}
	return []cli.Flag{
		&cli.PathFlag{
			Name: "config-file-dst", Category: category.Config, EnvVars: []string{"CONFIG_FILE_DST"}, Destination: &s.to,
			Usage: "`FILE` to write",
		},
		&cli.BoolFlag{
			Name: "oneshot", Category: category.Config, EnvVars: []string{"ONESHOT"}, Destination: &s.once,
			Usage: "write the file once, and exit",
		},
		ignored("send-signal", "SEND_SIGNAL"), ignored("signal", "SIGNAL"), ignored("process-to-signal", "PROCESS_TO_SIGNAL"),
	}
}

func (s *settings) open(log *slog.Logger) (configfile.Labels, error) {
	if s.labels != nil {
		return s.labels, nil
	}
	api, err := s.cluster.Open(Name, log)
	if errors.Is(err, kube.ErrNotInCluster) {
		log.Info("not in a cluster, ignoring the node's label", "err", err)
		return (*cluster.API)(nil), nil
	}
	return api, err
}

// selected is a config file with its content.
type selected struct{ path, content string }

func (s *settings) newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	if s.to == "" || s.from.Dir == "" {
		return nil, cmdline.Usagef("flags --config-file-srcdir and --config-file-dst: need values: the folder with the config files, and the file to write")
	}
	labels, err := s.open(log)
	if err != nil {
		return nil, err
	}
	live, err := configfile.Load(c.Context, s.from, configfile.Spec[selected]{
		Parse:  func(path string, data []byte) (selected, error) { return selected{path, string(data)}, nil },
		Labels: labels,
		Log:    log,
	})
	if err != nil {
		return nil, err
	}
	w := &writer{to: s.to, log: log}
	return &agent.Agent{
		Once: s.once,
		Parts: []agent.Part{{
			Name: "config", Reload: live.Reload,
			Run: func(ctx context.Context) error {
				if err := w.write(live.Config); err != nil || s.once {
					return err
				}
				log.Info("following the label and the files; the agents of this project do so themselves with --config-dir, and need no config manager")
				return w.follow(ctx, live)
			},
		}},
	}, nil
}

// writer writes the selected file.
type writer struct {
	to  string
	log *slog.Logger
}

// write writes the content of the selected config file. If no file is selected, it writes an
// empty file, which is a config of defaults.
func (w *writer) write(s selected) error {
	if err := hostfs.WriteFile(w.to, []byte(s.content), 0o644); err != nil {
		return err
	}
	w.log.Info("wrote the config", "file", w.to, "from", s.path)
	return nil
}

// follow writes each newer config, until ctx ends or a file cannot be written.
func (w *writer) follow(ctx context.Context, live *configfile.Live[selected]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := live.Run(ctx, configfile.Follower[selected]{
		Configure: func(s selected) {
			if err := w.write(s); err != nil {
				cancel(err)
			}
		},
		Reject: func(err error) { w.log.Error("cannot select a config, keeping the last one", "err", err) },
	})
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}
