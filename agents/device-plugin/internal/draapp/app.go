// Package draapp wires the DRA plugin: the inventory of the device plugin, a CDI
// spec of its own, and the driver of internal/dra at the kubelet.
package draapp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"outrigger.dev/agents/device-plugin/internal/dra"
	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/agents/device-plugin/internal/owner"
	"outrigger.dev/agents/device-plugin/internal/prepare"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/kube/typed"
	"outrigger.dev/pkg/pace"
)

const name = "dra-plugin"

// App describes the DRA plugin.
func App() agent.App {
	return agent.App{
		Name:    name,
		Usage:   "offers the GPUs of this node by Dynamic Resource Allocation",
		Flags:   flags(),
		Aliases: map[string]string{"nvidia-ctk-path": "nvidia-cdi-hook-path"},
		Listen:  ":9411",
		New:     newAgent,
		Source: func(c *cli.Context, log *slog.Logger) (gpu.Source, error) {
			s, err := read(c)
			if err != nil {
				return nil, err
			}
			return s.driver.Source(c, log)
		},
	}
}

func newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	s, err := read(c)
	if err != nil {
		return nil, err
	}
	if s.node == "" {
		return nil, agent.Usagef("flag --node-name is not set: give the name of the Node that this is (NODE_NAME, from spec.nodeName)")
	}
	client, err := typed.New(typed.Config{Kubeconfig: c.Path("kubeconfig"), Agent: name, Log: log})
	if err != nil {
		return nil, err
	}
	src, err := s.driver.Source(c, log)
	if err != nil {
		return nil, err
	}
	recorder := metrics.New("outrigger_dra_plugin")
	own := owner.New(s.driver.Contract, name, log)
	inv := inventory.New(inventory.Config{
		Config:       s.config,
		Rules:        s.rules,
		Source:       src,
		Preparer:     prepare.New(prepare.Config{Root: s.driver.Root, DevRoot: s.devRoot, Vendor: dra.CDIVendor, Log: log}),
		WatchChanges: s.driver.WatchChanges,
		Recorder:     recorder,
		Owner:        own,
		Log:          log,
	})
	k := &kubelet{
		settings: s, client: client, inventory: inv, recorder: recorder, failed: make(chan error, 1),
		ready: pace.NewReadiness(inventory.State{}.Unusable()), log: log,
	}
	return &agent.Agent{
		Run: func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return inv.Run(ctx) })
			g.Go(func() error { return own.Run(ctx) })
			g.Go(func() error { return k.run(ctx) })
			return errors.Join(g.Wait(), own.Release(), src.Close())
		},
		Ready:      k.isReady,
		Health:     driver.Checks(src),
		Reload:     func(context.Context) error { inv.Reload(); return nil },
		Collectors: []prometheus.Collector{recorder},
		Config:     s.effective(c),
	}, nil
}

// flags are those that the device plugin has for the same things, and those of
// NVIDIA's DRA driver for the kubelet's folders.
func flags() []cli.Flag {
	d := config.Default()
	return append(agent.GPUFlags(),
		agent.NodeNameFlag(),
		&cli.StringFlag{
			Name: "pod-uid", EnvVars: []string{"POD_UID"},
			Usage: "`UID` of the pod, so that a new one can take over from it; empty outside of a pod",
		},
		&cli.PathFlag{
			Name: "kubeconfig", EnvVars: []string{"KUBECONFIG"},
			Usage: "`FILE` by which the API server is reached; empty for the pod's service account",
		},
		&cli.PathFlag{
			Name: "kubelet-plugins-dir", EnvVars: []string{"KUBELET_PLUGINS_DIR"}, Value: "/var/lib/kubelet/plugins",
			Usage: "the kubelet's `FOLDER` for the sockets and files of plugins",
		},
		&cli.PathFlag{
			Name: "kubelet-registry-dir", EnvVars: []string{"KUBELET_REGISTRY_DIR"}, Value: "/var/lib/kubelet/plugins_registry",
			Usage: "the kubelet's `FOLDER` where plugins register",
		},
		&cli.PathFlag{
			Name: "cdi-root", EnvVars: []string{"CDI_ROOT"}, Value: d.CDIRoot,
			Usage: "the `FOLDER` for the CDI spec",
		},
		&cli.PathFlag{
			Name: "nvidia-cdi-hook-path", EnvVars: []string{"NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"},
			Usage: "`FILE` of nvidia-cdi-hook or nvidia-ctk on the host, for CDI hooks; empty for a spec that needs none",
		},
		&cli.StringSliceFlag{
			Name: "include-devices", EnvVars: []string{"INCLUDE_DEVICES"},
			Usage: "`DEVICES` that are offered, by index, UUID, product name or PCI address; empty for all",
		},
		&cli.StringSliceFlag{
			Name: "exclude-devices", EnvVars: []string{"EXCLUDE_DEVICES"},
			Usage: "`DEVICES` that are not",
		},
	)
}

// settings is all that the flags say.
type settings struct {
	node, podUID string
	// plugins and registry are folders of the kubelet.
	plugins, registry string
	config            config.Config
	rules             health.Rules
	driver            *driver.Driver
	devRoot           string
}

func read(c *cli.Context) (settings, error) {
	host, err := agent.HostOf(c)
	if err != nil {
		return settings{}, err
	}
	s := settings{
		node: c.String("node-name"), podUID: c.String("pod-uid"),
		plugins: c.Path("kubelet-plugins-dir"), registry: c.Path("kubelet-registry-dir"),
		config: config.Default(),
	}
	if c.IsSet("dev-root") {
		s.devRoot = host.DevRoot
	}
	for _, flag := range []string{"kubelet-plugins-dir", "kubelet-registry-dir", "cdi-root"} {
		if !filepath.IsAbs(c.Path(flag)) {
			return settings{}, agent.BadFlag(flag, c.Path(flag), "an absolute path")
		}
	}
	s.config.MIGStrategy = config.MIGStrategyMixed
	s.config.ListStrategies = []config.ListStrategy{config.ListCDICRI}
	s.config.CDIRoot, s.config.HookPath = c.Path("cdi-root"), c.Path("nvidia-cdi-hook-path")
	s.config.Filter = config.Filter{Include: c.StringSlice("include-devices"), Exclude: c.StringSlice("exclude-devices")}
	s.rules, _ = health.ParseRules("", "") // there is nothing in it that could be wrong
	s.driver, err = driver.New(host, s.devRoot)
	return s, err
}

// effective is what the first line of the log says.
func (s settings) effective(c *cli.Context) slog.Value {
	return slog.GroupValue(
		slog.String("gpu_source", c.String("gpu-source")),
		slog.String("node_name", s.node),
		slog.String("driver_root", s.driver.Root.HostPath()),
		slog.String("driver_root_ctr_path", s.driver.Root.CtrPath()),
		slog.String("dev_root", s.devRoot),
		slog.String("cdi_root", s.config.CDIRoot),
		slog.String("nvidia_cdi_hook_path", s.config.HookPath),
		slog.String("kubelet_plugins_dir", s.plugins),
		slog.String("kubelet_registry_dir", s.registry),
		slog.Any("devices", s.config.Filter),
	)
}

// claimExists asks the API server for a claim, by its name and then by its UID:
// another claim may have the name by now.
func (k *kubelet) claimExists(ctx context.Context, uid types.UID, claim string) (bool, error) {
	namespace, name := filepath.Split(claim)
	got, err := k.client.ResourceV1().ResourceClaims(filepath.Clean(namespace)).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up claim %s: %w", claim, err)
	}
	return got.UID == uid, nil
}
