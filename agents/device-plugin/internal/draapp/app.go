// Package draapp wires the DRA plugin: the inventory of the device plugin, CDI specs
// of its own, and the driver in internal/dra for the kubelet.
package draapp

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"outrigger.dev/agents/device-plugin/internal/dra"
	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/agents/device-plugin/internal/parts"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/reconcile"
)

const name = "dra-plugin"

// App describes the DRA plugin.
func App() agent.App {
	return agent.App{
		Name:    name,
		Usage:   "advertises the GPUs of this node through Dynamic Resource Allocation",
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
	if s.node, err = cluster.NodeName(c); err != nil {
		return nil, err
	}
	rc, err := kube.Config{Kubeconfig: c.Path("kubeconfig"), Agent: name}.REST()
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	failures := kube.Follow(rc, "resourceslices")
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	src, err := s.driver.Source(c, log)
	if err != nil {
		return nil, err
	}
	base := parts.New(parts.Config{
		Config:     inventory.Config{Config: s.config, Rules: s.rules, Source: src, Log: log},
		Driver:     s.driver,
		Advertiser: name,
		Vendor:     dra.CDIVendor,
		Recorder:   metrics.New("outrigger_dra_plugin"),
	})
	k := &kubelet{
		settings: s, client: client, failures: failures, inventory: base.Inventory, log: log,
		missed: reconcile.NewStatus(inventory.State{}.Unusable()),
		fact:   s.driver.Contract.NewKeeper(s.driver.Contract.Path(contract.DRAReady), log),
	}
	k.loop = reconcile.New(reconcile.Config{Name: "kubelet", Step: k.step, Log: log})
	base.Inventory.Notify(k.loop.Wake)
	return &agent.Agent{
		Parts: append(base.Parts,
			agent.Part{Name: "kubelet", Run: k.run, Ready: k.ready},
			agent.Part{Name: "fact dra-ready", Run: k.fact.Run},
		),
		Effective: append(gpuconfig.Effective(c, s.config), s.driver.Effective()...),
	}, nil
}

// flags returns the flags of the DRA plugin. Those for the kubelet's folders have the
// names of NVIDIA's DRA driver, all others those of the device plugin.
func flags() []cli.Flag {
	return slices.Concat(
		agent.GPUFlags(),
		[]cli.Flag{
			cluster.NodeNameFlag(),
			cluster.KubeconfigFlag(),
			&cli.StringFlag{
				Name: "pod-uid", EnvVars: []string{"POD_UID"},
				Usage: "`UID` of the pod, which lets a new pod take over from it during an update; empty outside of a pod",
			},
			&cli.PathFlag{
				Name: "kubelet-plugins-dir", EnvVars: []string{"KUBELET_PLUGINS_DIR"}, Value: "/var/lib/kubelet/plugins",
				Usage: "`FOLDER` of the kubelet for the sockets and files of plugins",
			},
			&cli.PathFlag{
				Name: "kubelet-registry-dir", EnvVars: []string{"KUBELET_REGISTRY_DIR"}, Value: "/var/lib/kubelet/plugins_registry",
				Usage: "`FOLDER` of the kubelet for the registration of plugins",
			},
		},
		gpuconfig.Flags("", config.CDIOptions()...),
		[]cli.Flag{
			&cli.StringSliceFlag{
				Name: "include-devices", EnvVars: []string{"INCLUDE_DEVICES"},
				Usage: "`DEVICES` to advertise, by index, UUID, product name or PCI address; if empty, all",
			},
			&cli.StringSliceFlag{
				Name: "exclude-devices", EnvVars: []string{"EXCLUDE_DEVICES"},
				Usage: "`DEVICES` not to advertise",
			},
		},
	)
}

// settings has the values of flags and environment variables.
type settings struct {
	node, podUID string
	// plugins and registry are folders of the kubelet.
	plugins, registry string
	config            config.Config
	rules             health.Rules
	driver            *driver.Driver
}

func read(c *cli.Context) (settings, error) {
	host, err := agent.HostOf(c)
	if err != nil {
		return settings{}, err
	}
	for _, flag := range []string{"kubelet-plugins-dir", "kubelet-registry-dir", "cdi-root"} {
		if !filepath.IsAbs(c.Path(flag)) {
			return settings{}, agent.BadFlag(flag, c.Path(flag), "an absolute path")
		}
	}
	s := settings{
		podUID:  c.String("pod-uid"),
		plugins: c.Path("kubelet-plugins-dir"), registry: c.Path("kubelet-registry-dir"),
	}
	for flag, socket := range s.sockets() {
		if err := hostfs.CheckSocketPath(socket); err != nil {
			return settings{}, agent.Usagef("flag --%s: %v", flag, err)
		}
	}
	if s.config, err = gpuconfig.Parse(c, "", nil); err != nil {
		return settings{}, err
	}
	s.config.MIGStrategy = config.MIGStrategyMixed
	s.config.ListStrategies = []config.ListStrategy{config.ListCDICRI}
	s.config.Filter = config.Filter{Include: agent.Words(c, "include-devices"), Exclude: agent.Words(c, "exclude-devices")}
	s.rules, _ = health.ParseRules("", "") // empty lists have no unknown words
	s.driver, err = driver.New(host, s.config.Driver)
	return s, err
}

// sockets returns the paths of the sockets that the library creates, by the flags of their
// folders.
func (s settings) sockets() map[string]string {
	service, registration := "dra.sock", dra.DriverName+"-reg.sock"
	if s.podUID != "" {
		service = "dra-" + s.podUID + ".sock"
		registration = kubeletplugin.RollingUpdateRegistrarSocketFile(s.registry, dra.DriverName, types.UID(s.podUID))
	}
	return map[string]string{
		"kubelet-plugins-dir":  filepath.Join(s.dir(), service),
		"kubelet-registry-dir": filepath.Join(s.registry, registration),
	}
}

// dir returns the folder of the plugin.
func (s settings) dir() string { return filepath.Join(s.plugins, dra.DriverName) }

// claimExists reports whether the API server has the claim. It compares UIDs, because
// another claim may have the same name by now.
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
