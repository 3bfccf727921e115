package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/urfave/cli/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/once"
	"outrigger.dev/orchestrator/internal/render"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/hostfs"
)

const (
	flagKubeconfig = "kubeconfig"
	flagNamespace  = "namespace"
	flagRelease    = "release"
	flagValues     = "values"
	flagKubernetes = "kube-version"
)

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: flagKubeconfig, EnvVars: []string{"KUBECONFIG"},
			Usage: "`FILE` that describes the cluster; by default ~/.kube/config, or that of the pod",
		},
		&cli.StringFlag{
			Name: flagNamespace, EnvVars: []string{"OPERATOR_NAMESPACE", "NAMESPACE"}, Value: "gpu-operator",
			Usage: "`NAMESPACE` of the orchestrator; the values name that of the agents",
		},
		&cli.StringFlag{
			Name: flagRelease, EnvVars: []string{"RELEASE"}, Value: "gpu-operator",
			Usage: "`NAME` with which the names of objects begin, as that of a Helm release",
		},
		&cli.StringSliceFlag{
			Name: flagValues, EnvVars: []string{"VALUES"},
			Usage: "`FILE` with values of the chart outrigger, also -f; of several files the last one decides",
		},
	}
}

// open returns where the cluster has what apply has applied, and the log.
func open(c *cli.Context) (once.Store, *slog.Logger, error) {
	log, err := agent.Logger(c)
	if err != nil {
		return once.Store{}, nil, err
	}
	release, err := named(c)
	if err != nil {
		return once.Store{}, nil, err
	}
	client, err := cluster.Open(c.String(flagKubeconfig), name)
	return once.Store{Client: client, Namespace: release.Namespace}, log, err
}

// named returns a release with the name and the namespace of the flags. With a wrong name, apply could write
// no object, and delete those that it has applied under the right one.
func named(c *cli.Context) (charts.Release, error) {
	r := charts.Release{Name: c.String(flagRelease), Namespace: c.String(flagNamespace)}
	if chartutil.ValidateReleaseName(r.Name) != nil {
		return r, agent.BadFlag(flagRelease, r.Name, "at most 53 lower-case letters, digits, - and .")
	}
	if len(validation.IsDNS1123Label(r.Namespace)) > 0 {
		return r, agent.BadFlag(flagNamespace, r.Namespace, "at most 63 lower-case letters, digits and -")
	}
	return r, nil
}

// reach returns the version of the API server. An error that it does not answer has the fix.
func reach(ctx context.Context, client *cluster.Client) (string, error) {
	version, err := client.Version(ctx)
	if away := (*cluster.UnreachableError)(nil); errors.As(err, &away) {
		err = fmt.Errorf("%w; check that it runs and that the kubeconfig is of the right cluster, or set --kubeconfig", err)
	}
	return version, err
}

// limited returns the context of a command with the flag --timeout.
func limited(c *cli.Context) (context.Context, context.CancelFunc, error) {
	timeout := c.Duration(flagTimeout)
	if timeout <= 0 {
		return nil, nil, agent.BadFlag(flagTimeout, timeout.String(), "longer than 0s")
	}
	ctx, cancel := context.WithTimeout(c.Context, timeout)
	return ctx, cancel, nil
}

// stages renders the values for a version of Kubernetes.
func stages(c *cli.Context, kubernetes string) ([]model.Stage, error) {
	release, err := named(c)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	for _, file := range agent.Words(c, flagValues) {
		more, err := readValues(file)
		if err != nil {
			return nil, err
		}
		values = loader.MergeMaps(values, more)
	}
	release.Kubernetes, release.Values = kubernetes, values
	return render.Stages(render.Config{Release: release})
}

// maxValues bounds a file of values. A release of Helm has 1 MiB at most.
const maxValues = 1 << 20

func readValues(file string) (map[string]any, error) {
	text, err := hostfs.ReadFile(file, maxValues)
	if err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	var values any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("read values %s: %w", file, err)
	}
	switch values := values.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return values, nil
	}
	return nil, fmt.Errorf("read values %s: it has no keys; write values as in global: {registry: REGISTRY}", file)
}
