package app

import (
	"fmt"
	"log/slog"

	"github.com/urfave/cli/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
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
	client, err := cluster.Open(c.String(flagKubeconfig), name, log)
	return once.Store{Client: client, Namespace: c.String(flagNamespace)}, log, err
}

// stages renders the values for a version of Kubernetes.
func stages(c *cli.Context, kubernetes string) ([]model.Stage, error) {
	values := map[string]any{}
	for _, file := range agent.Words(c, flagValues) {
		more, err := readValues(file)
		if err != nil {
			return nil, err
		}
		values = loader.MergeMaps(values, more)
	}
	return render.Stages(render.Config{Release: charts.Release{
		Name: c.String(flagRelease), Namespace: c.String(flagNamespace), Kubernetes: kubernetes, Values: values,
	}})
}

// maxValues bounds a file of values. A release of Helm has 1 MiB at most.
const maxValues = 1 << 20

func readValues(file string) (map[string]any, error) {
	text, err := hostfs.ReadFile(file, maxValues)
	if err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("read values %s: %w", file, err)
	}
	return values, nil
}
