package app

import (
	"fmt"
	"os"
	"time"

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
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
	"outrigger.dev/pkg/hostfs"
)

// settings holds the values of the flags.
type settings struct {
	kubeconfig string
	// release has the values of --release and --namespace and, after read, the version of Kubernetes and the values.
	release charts.Release
	values  []string

	// kubernetes is the version of Kubernetes: of the cluster, or of the flag --kube-version.
	kubernetes string
	// The flags of single commands follow.
	dryRun, wait, adopt, prune bool
	verify                     bool
	timeout                    time.Duration
	output                     string
}

func (s *settings) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "kubeconfig", EnvVars: []string{"KUBECONFIG"}, Destination: &s.kubeconfig, Category: category.Kubernetes,
			Usage: "kubeconfig `FILE`; by default ~/.kube/config, or the service account of the pod",
		},
		cmdline.Check(&cli.StringFlag{
			Name: "namespace", Aliases: []string{"n"}, EnvVars: []string{"OPERATOR_NAMESPACE", "NAMESPACE"}, Value: "gpu-operator", Destination: &s.release.Namespace, Category: category.Kubernetes,
			Usage: "`NAMESPACE` of the orchestrator; the value global.namespace is the namespace of the agents",
		}, "at most 63 lower-case letters, digits and -", func(v string) bool { return len(validation.IsDNS1123Label(v)) == 0 }),
		// With an invalid name, apply could not write any object, and would delete the objects that
		// it applied under the valid name.
		cmdline.Check(&cli.StringFlag{
			Name: "release", EnvVars: []string{"RELEASE"}, Value: "gpu-operator", Destination: &s.release.Name, Category: category.Release,
			Usage: "`NAME` with which the names of objects begin, like the name of a Helm release",
		}, "at most 53 lower-case letters, digits, - and .", func(v string) bool { return chartutil.ValidateReleaseName(v) == nil }),
		cmdline.List(&cli.StringSliceFlag{
			Name: "values", Aliases: []string{"f"}, EnvVars: []string{"VALUES"}, Category: category.Release,
			Usage: "`FILE` with values of the chart outrigger; - for standard input; the last of several files takes precedence",
		}, &s.values),
	}
}

// cluster returns the cluster that the flags select.
func (s *settings) cluster() cluster.Kubeconfig { return cluster.Kubeconfig{Path: s.kubeconfig} }

// openStore returns the store of the record of applied objects. It does not connect to the cluster.
func (s *settings) openStore() (once.Store, error) {
	client, err := cluster.Open(s.cluster(), name)
	return once.Store{Client: client, Namespace: s.release.Namespace}, err
}

// stages renders the values for a version of Kubernetes.
func (s *settings) stages(kubernetes string) ([]model.Stage, error) {
	if err := s.read(kubernetes); err != nil {
		return nil, err
	}
	return render.Stages(render.Config{Release: s.release})
}

// read completes the release with the values of all files.
func (s *settings) read(kubernetes string) error {
	s.release.Kubernetes, s.release.Values = kubernetes, map[string]any{}
	for _, file := range s.values {
		more, err := readValues(file)
		if err != nil {
			return err
		}
		s.release.Values = loader.MergeMaps(s.release.Values, more)
	}
	return nil
}

// maxValues is the maximum size of a values file: a Helm release has at most 1 MiB.
const maxValues = 1 << 20

func readValues(file string) (map[string]any, error) {
	text, err := hostfs.ReadInput(file, os.Stdin, maxValues)
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
