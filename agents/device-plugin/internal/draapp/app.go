// Package draapp wires the DRA plugin: the inventory that it shares with the device plugin,
// separate CDI specs, and the driver in internal/dra for the kubelet.
package draapp

import (
	"context"
	"errors"
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
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
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
	s := &settings{}
	return agent.App{
		Name:  name,
		Usage: "advertises the GPUs of this node through Dynamic Resource Allocation",
		Examples: []cmdline.Example{
			{Purpose: "Advertise all GPUs of the node node1", Line: "dra-plugin --node-name=node1 --kubeconfig=$HOME/.kube/config"},
			{Purpose: "Advertise all GPUs except the first one", Line: "dra-plugin --node-name=node1 --exclude-devices=0"},
		},
		Flags:  s.flags(),
		Host:   &s.gpus.Host,
		Listen: ":9411",
		New:    s.newAgent,
		Source: func(_ *cli.Context, log *slog.Logger) (gpu.Source, error) {
			if err := s.load(); err != nil {
				return nil, err
			}
			return s.driver.Source(log)
		},
	}
}

func (s *settings) newAgent(_ *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	if err := s.load(); err != nil {
		return nil, err
	}
	if err := s.cluster.Named(); err != nil {
		return nil, err
	}
	rc, err := kube.Config{Kubeconfig: s.cluster.Kubeconfig, Agent: name}.REST()
	if errors.Is(err, kube.ErrNotInCluster) {
		return nil, fmt.Errorf("connect to the API server: %w: run it in a pod with a service account, or set --kubeconfig", err)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	failures := kube.Follow(rc, "resourceslices")
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	src, err := s.driver.Source(log)
	if err != nil {
		return nil, err
	}
	base := parts.New(parts.Config{
		Config:     inventory.Config{Config: s.config, Rules: s.rules, Source: src, Log: log},
		Driver:     s.driver,
		Advertiser: name,
		Vendor:     dra.CDIVendor,
		ToolkitDir: s.toolkitDir,
		Recorder:   metrics.New("outrigger_dra_plugin"),
	})
	k := &kubelet{
		settings: s, client: client, failures: failures, inventory: base.Inventory, log: log,
		notReady: reconcile.NewStatus(inventory.State{}.Unusable()),
		fact:     s.driver.Contract.NewKeeper(s.driver.Contract.Path(contract.DRAReady), log),
	}
	k.loop = reconcile.New(reconcile.Config{Name: "kubelet", Step: k.step, Log: log})
	base.Inventory.Notify(k.loop.Wake)
	return &agent.Agent{
		Parts: append(base.Parts,
			agent.Part{Name: "kubelet", Run: k.run, Ready: k.ready},
			agent.Part{Name: "fact dra-ready", Run: k.fact.Run},
		),
		Effective: append(s.gpus.Effective(s.config), s.driver.Effective()...),
	}, nil
}

// settings holds the values of flags and environment variables.
type settings struct {
	gpus    gpuconfig.Settings
	cluster cluster.Settings
	podUID  string
	// plugins and registry are folders of the kubelet.
	plugins, registry string
	filter            config.Filter
	// toolkitDir is the folder of the container toolkit on the host.
	toolkitDir string

	// load sets the fields below.
	config config.Config
	rules  health.Rules
	driver *driver.Driver
}

// flags returns the flags of the DRA plugin. The flags for the kubelet's folders have the same
// names as in NVIDIA's DRA driver. All others have the same names as in the device plugin.
func (s *settings) flags() []cli.Flag {
	return slices.Concat(
		s.gpus.HostFlags(),
		cmdline.Under(category.Kubernetes,
			s.cluster.NodeNameFlag(),
			s.cluster.KubeconfigFlag(),
			&cli.StringFlag{
				Name: "pod-uid", EnvVars: []string{"POD_UID"}, Destination: &s.podUID,
				Usage: "`UID` of the pod, so that a new pod can take over without a gap during an update; empty outside of a pod",
			},
			cmdline.Absolute(&cli.PathFlag{
				Name: "kubelet-plugins-dir", EnvVars: []string{"KUBELET_PLUGINS_DIR"}, Value: "/var/lib/kubelet/plugins", Destination: &s.plugins,
				Usage: "`FOLDER` of the kubelet for the sockets and files of plugins",
			}),
			cmdline.Absolute(&cli.PathFlag{
				Name: "kubelet-registry-dir", EnvVars: []string{"KUBELET_REGISTRY_DIR"}, Value: "/var/lib/kubelet/plugins_registry", Destination: &s.registry,
				Usage: "`FOLDER` of the kubelet for the registration of plugins",
			}),
		),
		s.gpus.Flags("", config.CDIOptions()...),
		[]cli.Flag{parts.ToolkitFlag(&s.toolkitDir)},
		cmdline.Under(category.Resources,
			cmdline.List(&cli.StringSliceFlag{
				Name: "include-devices", EnvVars: []string{"INCLUDE_DEVICES"},
				Usage: "`DEVICES` to advertise, by index, UUID, product name or PCI address; if empty, all",
			}, &s.filter.Include),
			cmdline.List(&cli.StringSliceFlag{
				Name: "exclude-devices", EnvVars: []string{"EXCLUDE_DEVICES"},
				Usage: "`DEVICES` not to advertise",
			}, &s.filter.Exclude),
		),
	)
}

// load parses the config, and opens the driver.
func (s *settings) load() (err error) {
	for flag, socket := range s.sockets() {
		if err := hostfs.CheckSocketPath(socket); err != nil {
			return cmdline.Usagef("flag --%s: %v", flag, err)
		}
	}
	if s.config, err = s.gpus.Parse("", nil); err != nil {
		return err
	}
	s.config.MIGStrategy = config.MIGStrategyMixed
	s.config.ListStrategies = []config.ListStrategy{config.ListCDICRI}
	s.config.Filter = s.filter
	s.rules, _ = health.ParseRules("", "") // empty lists have no unknown words
	s.driver, err = driver.New(s.gpus.Host, s.config.Driver)
	return err
}

// sockets returns the path of each socket that the library kubeletplugin creates, keyed by the
// flag that sets the folder of the socket.
func (s *settings) sockets() map[string]string {
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
func (s *settings) dir() string { return filepath.Join(s.plugins, dra.DriverName) }

// claimExists reports whether the API server has the claim. It compares UIDs, because a newer
// claim may have the same name.
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
