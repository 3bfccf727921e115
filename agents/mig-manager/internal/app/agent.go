package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/clients"
	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/agents/mig-manager/internal/publish"
	"outrigger.dev/agents/mig-manager/internal/users"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	watching "outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/procowner"
)

// The delays between attempts to make a change.
const (
	retryFirst = 10 * time.Second
	retryMost  = 5 * time.Minute
	// rebootPause is the delay if only a reboot completes the change.
	rebootPause = time.Hour
)

// running is a configured agent.
type running struct {
	settings *settings
	log      *slog.Logger
	manager  *manager.Manager
	driver   *driver.Driver
	source   gpu.Source
	kubelet  *podresources.Client
	api      *cluster.API
	observer *watching.Observer[struct{}, struct{}]
	// publisher is nil unless the generated configs are published.
	publisher *publish.Publisher
	// version is the last observed version of the driver.
	version atomic.Pointer[string]
	// folders are the folders with config files.
	folders []string
}

func (s *settings) newAgent(_ *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	r := &running{settings: s, log: log}
	var err error
	if r.driver, err = s.driver(); err != nil {
		return nil, err
	}
	cfg, err := r.config()
	if err != nil {
		return nil, err
	}
	r.manager = manager.New(cfg)
	r.observer = watching.New(watching.Config[struct{}, struct{}]{
		Source: r.source, Preparer: watching.Unprepared[struct{}, struct{}]{}, WatchChanges: r.driver.WatchChanges, Log: log,
	})
	owner := s.cluster.Owner(r.api, log)
	owner.Left = true
	return &agent.Agent{
		Parts: []agent.Part{
			{Name: "gpus", Run: r.observer.Run, Health: driver.Checks(r.source), Close: r.source.Close},
			{Name: "changes of gpus", Run: r.follow},
			{Name: "config files", Run: r.watchFiles},
			{Name: "published configs", Run: r.publisher.Run},
			{
				Name: "manager", Run: r.manager.Run, Ready: r.manager.Ready, Reload: r.manager.Changed, Withdraw: r.manager.Withdraw,
				Collectors: r.manager.Collectors(),
			},
			{Name: "kubelet", Close: r.kubelet.Close},
			{Name: "events", Run: r.api.Run, Ready: r.api.Failing},
		},
		Owner: owner,
	}, nil
}

// config returns the configuration of the manager.
func (r *running) config() (_ manager.Config, err error) {
	s := r.settings
	if err := s.cluster.Named(); err != nil {
		return manager.Config{}, err
	}
	if r.api, err = s.cluster.Open(manager.Name, r.log); err != nil {
		return manager.Config{}, cmdline.Usagef("the agent reads a label of its Node, and cannot reach the API server: %w: set --kubeconfig, or use the command apply, which works without Kubernetes", err)
	}
	session, err := r.driver.Session(r.log)
	if err != nil {
		return manager.Config{}, err
	}
	r.source = r.driver.Reader(session, r.log)
	if r.kubelet, err = podresources.New(podresources.Config{Socket: s.kubeletSocket}); err != nil {
		return manager.Config{}, cmdline.Usagef("flag --pod-resources-kubelet-socket: %s", err)
	}
	containers := &users.Finder{Source: r.source, Kubelet: r.kubelet, Pins: r.driver.Pins(), Client: r.api.Client}
	processes := apply.Processes{Root: procowner.Root{PodLogs: s.podLogs}, Driver: s.host.ProcRoot}
	applier, err := s.applier(r.driver, session, apply.Config{Processes: processes, Containers: containers.Held, Changing: containers.Changing, Log: r.log})
	if err != nil {
		return manager.Config{}, err
	}
	if r.publisher, err = r.newPublisher(session); err != nil {
		return manager.Config{}, err
	}
	files := migconfig.NewFiles(s.defaultFile, s.configFile, r.log)
	r.folders = files.Folders()
	systemd := clients.Systemd{Socket: filepath.Join(s.hostRoot, "run/dbus/system_bus_socket")}
	cfg := manager.Config{
		Client: r.api.Client, Report: r.api.Event, GPUs: applier, Select: files.Select, Stays: containers.Stays,
		Reboot: systemd.Reboot, Default: s.defaultConfig, Options: s.options, PauseLabel: s.pauseLabel, Contract: r.driver.Contract,
		DriverVersion: r.driverVersion, Loaded: func() string { return loadedAs(s.host) }, RebootFile: filepath.Join(s.stateDir, "reboot.json"),
		Retry: pace.Backoff{First: retryFirst, Most: retryMost}, Log: r.log,
	}
	return cfg, r.hostUnits(systemd, &cfg)
}

// newPublisher returns the Publisher of the generated configs, or nil if they are not published. It has a
// second Applier, because an Applier is not safe for concurrent use.
func (r *running) newPublisher(session *nvml.Session) (*publish.Publisher, error) {
	s := r.settings
	if s.publishAs == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	applier, err := s.applier(r.driver, session, apply.Config{Log: r.log})
	if err != nil {
		return nil, err
	}
	return publish.New(publish.Config{
		Client: r.api.Client, Namespace: s.cluster.Namespace, Pod: s.publishAs, Node: s.cluster.NodeName, GPUs: applier.GPUs, Log: r.log,
	}), nil
}

// hostUnits adds the host's systemd units that the flags name.
func (r *running) hostUnits(systemd clients.Systemd, cfg *manager.Config) error {
	journal := filepath.Join(r.settings.stateDir, "clients.json")
	units, err := r.settings.units()
	if err != nil {
		return err
	}
	// Units that a previous process has stopped are started again, even if the flags do not name them
	// any more.
	if len(units) == 0 && !exists(journal) {
		return nil
	}
	boot, err := r.driver.Contract.BootID()
	if err != nil {
		return err
	}
	cfg.Units = clients.New(clients.Config{Host: systemd, Units: units, Journal: journal, BootID: boot, Log: r.log})
	cfg.OfHost = func(unit string) bool { return slices.Contains(units, unit) }
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// units returns the host's systemd units that the agent may stop.
func (s *settings) units() ([]string, error) {
	if !s.stopClients {
		return nil, nil
	}
	if s.gpuClients == "" {
		return nil, cmdline.Usagef("flag --with-shutdown-host-gpu-clients: it needs --gpu-clients-file: set it to the file with the systemd units")
	}
	data, err := configfile.Read(s.gpuClients)
	if err != nil {
		return nil, fmt.Errorf("flag --gpu-clients-file: %w", err)
	}
	return clients.Parse(s.gpuClients, data)
}

func (r *running) driverVersion() string {
	if v := r.version.Load(); v != nil {
		return *v
	}
	return ""
}

// watchFiles wakes the manager when a config file changes.
func (r *running) watchFiles(ctx context.Context) error {
	if len(r.folders) > 0 {
		hostfs.Watch(ctx, r.log, r.manager.Changed, r.folders...)
	}
	return nil
}

// follow wakes the manager when the GPUs change.
func (r *running) follow(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-r.observer.Observations():
			if o.Node != nil {
				r.version.Store(&o.Node.Driver.Version)
			}
			r.manager.Changed()
			r.publisher.Changed()
		case <-r.observer.Events():
		case <-r.observer.Hangs(): //nolint:errcheck // /healthz reports the hang
		}
	}
}
