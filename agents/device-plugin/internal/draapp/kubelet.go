package draapp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"outrigger.dev/agents/device-plugin/internal/dra"
	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// kubelet connects the driver with the kubelet and the API server.
type kubelet struct {
	settings  settings
	client    kubernetes.Interface
	failures  *kube.Failures
	inventory *inventory.Inventory
	recorder  *metrics.Recorder
	// failed gets the fatal error of the library's background work.
	failed chan error
	ready  *pace.Readiness
	// fact is dra-ready, which holds while ready does.
	fact *contract.Keeper
	log  *slog.Logger
}

// isReady returns nil while there are devices, the kubelet has registered the plugin, and
// the API server takes the devices, and otherwise what is missing.
func (k *kubelet) isReady() error {
	if err := k.inventory.Hangs(); err != nil {
		return err
	}
	return errors.Join(k.ready.Err(), k.failures.Err())
}

// registerCheck is how often the plugin checks whether the kubelet has accepted its
// registration, until it has.
const registerCheck = 200 * time.Millisecond

func (k *kubelet) run(ctx context.Context) error {
	dir := k.settings.dir()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("create the plugin's folder: %w: mount the kubelet's folder, or set --kubelet-plugins-dir", err)
	}
	d, err := dra.New(dra.Config{
		Node: k.settings.node, LedgerPath: filepath.Join(dir, "claims.json"), BootID: k.bootID(), Exists: k.claimExists,
		Failed: func(err error) {
			select {
			case k.failed <- err:
			default:
			}
		},
		Log: k.log,
	})
	if err != nil {
		return err
	}
	// The plugin cannot prepare claims before it knows the devices.
	state, ok := k.first(ctx)
	if !ok {
		return nil
	}
	k.ready.Set(errUnregistered)
	helper, err := kubeletplugin.Start(ctx, d, k.options(dir)...)
	if err != nil {
		return fmt.Errorf("serve the kubelet: %w", err)
	}
	defer helper.Stop()
	return k.follow(ctx, d, helper, state)
}

// bootID returns the id of this boot, empty if it cannot be read.
func (k *kubelet) bootID() string {
	id, err := k.settings.driver.Contract.BootID()
	if err != nil {
		k.log.Warn("cannot read the boot id, claims from before a boot keep their devices", "err", err)
	}
	return id
}

// first waits for the first state that has the GPUs of the node.
func (k *kubelet) first(ctx context.Context) (inventory.State, bool) {
	for {
		select {
		case <-ctx.Done():
			return inventory.State{}, false
		case s := <-k.inventory.States():
			if s.Node != nil {
				return s, true
			}
			k.ready.Set(s.Unusable())
		}
	}
}

func (k *kubelet) follow(ctx context.Context, d *dra.Driver, helper *kubeletplugin.Helper, state inventory.State) error {
	tick := time.NewTicker(registerCheck)
	defer tick.Stop()
	defer k.fact.Withdraw()
	if err := d.Advertise(ctx, dra.Inventory(state.Node, state.Set), helper); err != nil {
		return err
	}
	for {
		if k.settle(state, k.missing(state, helper)) {
			tick.Stop()
		} else {
			tick.Reset(registerCheck)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-k.failed:
			return err
		case <-tick.C:
		case state = <-k.inventory.States():
			if err := d.Advertise(ctx, dra.Inventory(state.Node, state.Set), helper); err != nil {
				return err
			}
		}
	}
}

// settle reports readiness for a state of which err is missing, and returns whether the
// plugin is ready.
func (k *kubelet) settle(s inventory.State, err error) bool {
	was := k.ready.Swap(err)
	switch {
	case err == nil && was != nil:
		k.log.Info("ready, devices are published and the plugin is registered")
		k.fact.Publish(contract.Record{Writer: name, DriverVersion: s.Node.Driver.Version})
	case err != nil && was == nil:
		k.log.Warn("not ready, retrying", "err", err)
		k.fact.Withdraw()
	}
	return err == nil
}

var errUnregistered = errors.New("register with the kubelet: it has not accepted the plugin yet")

func (k *kubelet) missing(s inventory.State, helper *kubeletplugin.Helper) error {
	if err := s.Unusable(); err != nil {
		return err
	}
	st := helper.RegistrationStatus()
	switch {
	case st == nil:
		return errUnregistered
	case !st.GetPluginRegistered():
		return fmt.Errorf("%w: %s", errUnregistered, st.GetError())
	}
	return nil
}

func (k *kubelet) options(dir string) []kubeletplugin.Option {
	out := []kubeletplugin.Option{
		kubeletplugin.DriverName(dra.DriverName),
		kubeletplugin.NodeName(k.settings.node),
		kubeletplugin.KubeClient(k.client),
		kubeletplugin.RegistrarDirectoryPath(k.settings.registry),
		kubeletplugin.PluginDataDirectoryPath(dir),
	}
	if k.settings.podUID != "" {
		out = append(out, kubeletplugin.RollingUpdate(types.UID(k.settings.podUID)))
	}
	return out
}
