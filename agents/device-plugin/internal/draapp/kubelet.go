package draapp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"outrigger.dev/agents/device-plugin/internal/dra"
	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/reconcile"
)

// kubelet connects the driver to the kubelet and the API server.
type kubelet struct {
	settings  *settings
	client    kubernetes.Interface
	failures  *kube.Failures
	inventory *inventory.Inventory
	loop      *reconcile.Loop
	// failed is the fatal error of the background work of the library kubeletplugin.
	failed reconcile.Status
	// notReady is the reason why the plugin is not ready.
	notReady *reconcile.Status
	// fact is dra-ready. It is published while the plugin is ready.
	fact *contract.Keeper
	log  *slog.Logger

	// The loop owns the fields below.
	driver *dra.Driver
	// helper is nil until the devices are known.
	helper *kubeletplugin.Helper
}

// ready returns nil while there are devices, the kubelet has registered the plugin, and
// the API server accepts the devices. Otherwise it returns the reason.
func (k *kubelet) ready() error {
	if err := k.inventory.Hangs(); err != nil {
		return err
	}
	return errors.Join(k.notReady.Err(), k.failures.Err())
}

// registerCheck is the interval between checks whether the kubelet has accepted the plugin's
// registration. The checks end when the kubelet has accepted it.
const registerCheck = 200 * time.Millisecond

func (k *kubelet) run(ctx context.Context) error {
	dir := k.settings.dir()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("create the plugin's folder: %w: mount the kubelet's folder, or set --kubelet-plugins-dir", err)
	}
	var err error
	k.driver, err = dra.New(dra.Config{
		Node: k.settings.cluster.NodeName, CheckpointPath: filepath.Join(dir, "claims.json"), BootID: k.bootID(), Exists: k.claimExists,
		Failed: func(err error) { k.failed.Set(err); k.loop.Wake() },
		Log:    k.log,
	})
	if err != nil {
		return err
	}
	err = k.loop.Run(ctx)
	k.fact.Withdraw()
	if k.helper != nil {
		k.helper.Stop()
	}
	return err
}

// bootID returns the ID of this boot, empty if it cannot be read.
func (k *kubelet) bootID() string {
	id, err := k.settings.driver.Contract.BootID()
	if err != nil {
		k.log.Warn("cannot read the boot id, claims from before a boot keep their devices", "err", err)
	}
	return id
}

// step advertises the newest state, and checks whether the kubelet knows the plugin.
func (k *kubelet) step(ctx context.Context) (reconcile.Result, error) {
	if err := k.failed.Err(); err != nil {
		return reconcile.Result{}, reconcile.Fatal(err)
	}
	s := k.inventory.State()
	if s.Node == nil {
		k.notReady.Set(s.Unusable())
		return reconcile.Result{}, nil
	}
	if k.helper == nil { // without devices, the plugin cannot prepare claims
		k.notReady.Set(errUnregistered) // Start waits for the API server
		helper, err := kubeletplugin.Start(ctx, k.driver, k.options(k.settings.dir())...)
		if err != nil {
			return reconcile.Result{}, reconcile.Fatal(k.serveError(err))
		}
		k.helper = helper
	}
	if err := k.driver.Advertise(ctx, dra.Inventory(s.Node, s.Set), k.helper); err != nil {
		return reconcile.Result{}, reconcile.Fatal(err)
	}
	err := k.missing(s)
	k.updateReady(s, err)
	if err != nil {
		return reconcile.Result{After: registerCheck}, nil //nolint:nilerr // updateReady has logged and recorded the error
	}
	return reconcile.Result{}, nil
}

// updateReady records err as the reason why the plugin is not ready, nil if it is ready. When
// readiness changes, it logs that, and publishes or withdraws the fact.
func (k *kubelet) updateReady(s inventory.State, err error) {
	was := k.notReady.Err()
	k.notReady.Set(err)
	switch {
	case err == nil && was != nil:
		k.log.Info("ready, devices are published and the plugin is registered")
		k.fact.Publish(contract.Record{Writer: name, DriverVersion: s.Node.Driver.Version})
	case err != nil && was == nil:
		k.log.Warn("not ready, retrying", "err", err)
		k.fact.Withdraw()
	}
}

var errUnregistered = errors.New("register with the kubelet: it has not accepted the plugin yet")

func (k *kubelet) missing(s inventory.State) error {
	if err := s.Unusable(); err != nil {
		return err
	}
	st := k.helper.RegistrationStatus()
	switch {
	case st == nil:
		return errUnregistered
	case !st.GetPluginRegistered():
		return fmt.Errorf("%w: %s", errUnregistered, st.GetError())
	}
	return nil
}

// serveError returns the error of a plugin that cannot serve the kubelet, with the fix if the folder
// for the registration is missing. The library does not wrap errors of the kernel.
func (k *kubelet) serveError(err error) error {
	if _, missing := os.Stat(k.settings.registry); errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("serve the kubelet: %w: mount the kubelet's folder %s at the same path, or set --kubelet-registry-dir", err, k.settings.registry)
	}
	return fmt.Errorf("serve the kubelet: %w", err)
}

func (k *kubelet) options(dir string) []kubeletplugin.Option {
	out := []kubeletplugin.Option{
		kubeletplugin.DriverName(dra.DriverName),
		kubeletplugin.NodeName(k.settings.cluster.NodeName),
		kubeletplugin.KubeClient(k.client),
		kubeletplugin.RegistrarDirectoryPath(k.settings.registry),
		kubeletplugin.PluginDataDirectoryPath(dir),
	}
	if k.settings.podUID != "" {
		out = append(out, kubeletplugin.RollingUpdate(types.UID(k.settings.podUID)))
	}
	return out
}
