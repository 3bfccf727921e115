package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/eviction"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/kube"
)

func clusterFlags() []cli.Flag {
	return []cli.Flag{
		cluster.NodeNameFlag(),
		&cli.StringFlag{
			Name: "namespace", EnvVars: []string{"NAMESPACE"}, Value: "default",
			Usage: "`NAMESPACE` of the pod, in which the upgrade slots are",
		},
		&cli.StringFlag{
			Name: "daemonset-name", EnvVars: []string{"DAEMONSET_NAME"},
			Usage: "`NAME` of the agent's DaemonSet, whose nodes a percentage in upgrade-policy is of",
		},
		&cli.StringFlag{
			Name: "upgrade-policy", EnvVars: []string{"UPGRADE_POLICY"},
			Usage: "`POLICY` of upgrades in a cluster, as JSON in the form of NVIDIA's driver.upgradePolicy; it replaces auto-upgrade. Empty for no cluster",
		},
		&cli.PathFlag{
			Name: "drain-program", EnvVars: []string{"DRAIN_PROGRAM"},
			Usage: "`FILE` of the program that evicts pods; empty for driver-loader-drain in the folder of this program",
		},
	}
}

// place is where an agent upgrades its node: in a cluster.
type place struct {
	policy          upgrade.Policy
	daemonSet       kube.Object
	drain, nodeName string
}

// readPlace reads the flags of an agent in a cluster. It returns nil for one that is in none.
func readPlace(c *cli.Context) (*place, error) {
	text := c.String("upgrade-policy")
	if text == "" {
		return nil, nil //nolint:nilnil // a nil place is none
	}
	var errs []error
	policy, err := upgrade.ParsePolicy([]byte(text))
	if err != nil {
		errs = append(errs, agent.Usagef("flag --upgrade-policy: %s", err))
	}
	name, err := cluster.NodeName(c)
	errs = append(errs, err)
	p := &place{policy: policy, drain: c.Path("drain-program"), nodeName: name, daemonSet: kube.Object{
		API: "apps/v1", Resource: "daemonsets", Namespace: c.String("namespace"), Name: c.String("daemonset-name"),
	}}
	if p.daemonSet.Name == "" && strings.HasSuffix(string(policy.MaxUnavailable), "%") {
		errs = append(errs, agent.Usagef("flag --daemonset-name is not set, and maxUnavailable of --upgrade-policy is %s: set the name of the agent's DaemonSet, or a number of nodes", policy.MaxUnavailable))
	}
	if p.drain == "" {
		self, err := os.Executable()
		errs = append(errs, err)
		p.drain = filepath.Join(filepath.Dir(self), eviction.Program)
	}
	return p, errors.Join(errs...)
}
