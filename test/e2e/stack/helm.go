package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
)

// helmLimit is how long Helm waits for hooks and objects.
const helmLimit = 3 * time.Minute

// crdAttempts is how often a chart is installed until the API server lists the kinds of its CRDs, and
// crdPause the pause in between.
const (
	crdAttempts = 10
	crdPause    = 2 * time.Second
)

// Helm installs charts of the repository with Helm itself, as "helm install" does: with hooks,
// CRDs, and a record of the release in the cluster. Install is faster, because it only applies the
// rendered objects.
type Helm struct {
	config *action.Configuration
	// Namespace is the namespace of the releases.
	Namespace string
}

// Helm returns Helm for releases in a namespace.
func (s *Stack) Helm(namespace string) (*Helm, error) {
	flags := genericclioptions.NewConfigFlags(true)
	kubeconfig := s.Kubeconfig()
	// The next cluster has the same address, so its discovery cache must be separate.
	cache := filepath.Join(filepath.Dir(kubeconfig), "helm-cache")
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &kubeconfig, &namespace, &cache
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := config.Init(flags, namespace, "secret"); err != nil {
		return nil, fmt.Errorf("connect Helm to the cluster: %w", err)
	}
	return &Helm{config: config, Namespace: namespace}, nil
}

// Install installs a chart under its own name, or upgrades the release. The values, and the
// registry of the loaded images, replace all values of the previous release. Install does not wait
// for pods.
func (h *Helm) Install(ctx context.Context, name string, values map[string]any) error {
	c, err := charts.Load(name)
	if err != nil {
		return err
	}
	return h.InstallChart(ctx, name, c, values)
}

// InstallChart is Install for a loaded chart, under any name.
func (h *Helm) InstallChart(ctx context.Context, name string, c chart.Charter, values map[string]any) error {
	values = chartstest.WithRegistry(values)
	_, err := h.config.Releases.Last(name)
	if err == nil {
		upgrade := action.NewUpgrade(h.config)
		upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = h.Namespace, kube.HookOnlyStrategy, helmLimit
		// Without this, an upgrade without values would keep the values of the release.
		upgrade.ResetValues = true
		if _, err := upgrade.RunWithContext(ctx, name, c, values); err != nil {
			return fmt.Errorf("helm upgrade %s: %w", name, err)
		}
		return nil
	}
	if !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("find the release %s: %w", name, err)
	}
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = name, h.Namespace, true
	install.WaitStrategy, install.Timeout = kube.HookOnlyStrategy, helmLimit
	for again := range crdAttempts {
		_, err = install.RunWithContext(ctx, c, values)
		if err == nil || again == crdAttempts-1 || !strings.Contains(err.Error(), "ensure CRDs are installed first") {
			break
		}
		// The CRD is Established, and a busy API server does not list its kind yet.
		time.Sleep(crdPause) //nolint:forbidigo // no event says when the API server serves a kind
	}
	if err != nil {
		return fmt.Errorf("helm install %s: %w", name, err)
	}
	return nil
}

// Test runs the test pods of a release, as "helm test" does.
func (h *Helm) Test(name string) error {
	test := action.NewReleaseTesting(h.config)
	test.Namespace, test.Timeout = h.Namespace, helmLimit
	_, end, err := test.Run(name)
	if err := errors.Join(err, end()); err != nil {
		return fmt.Errorf("helm test %s: %w", name, err)
	}
	return nil
}

// Uninstall removes a release, if it exists, after its hooks. Its objects disappear soon after.
// Uninstall does not use Helm's wait for that, because the wait fails now and then on a busy
// machine: it ends once the objects that it has heard of are gone.
func (h *Helm) Uninstall(name string) error {
	uninstall := action.NewUninstall(h.config)
	uninstall.IgnoreNotFound, uninstall.WaitStrategy, uninstall.Timeout = true, kube.HookOnlyStrategy, helmLimit
	uninstall.DeletionPropagation = "foreground"
	if _, err := uninstall.Run(name); err != nil {
		return fmt.Errorf("helm uninstall %s: %w", name, err)
	}
	return nil
}
