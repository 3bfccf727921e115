package app

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/grants"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
)

func (s *settings) clusterFlags() []cli.Flag {
	return []cli.Flag{
		s.cluster.NodeNameFlag(),
		s.cluster.NamespaceFlag("the pod and of the driver loader's DaemonSets"),
		s.cluster.DaemonSetFlag(", whose upgrade policy has the limits for this node; if that is deleted, or does not select the node any more, when the agent stops, the agent removes what it has published on the Node"),
		&cli.StringFlag{
			Name: "upgrade-policy", EnvVars: []string{"UPGRADE_POLICY"}, Destination: &s.upgradePolicy,
			Usage: "upgrade `POLICY` as JSON, with the keys of driver.upgradePolicy of NVIDIA's ClusterPolicy; it replaces auto-upgrade; if empty, the agent does not use Kubernetes",
		},
		&cli.StringFlag{
			Name: "node-label-for-gpu-pod-eviction", EnvVars: []string{"NODE_LABEL_FOR_GPU_POD_EVICTION"}, Destination: &s.pauseLabel,
			Usage: "another `LABEL` of the Node to pause during an upgrade, in addition to nvidia.com/gpu.deploy.client and similar labels: DaemonSets that select its value true, and hold the driver, leave the node",
		},
		&cli.BoolFlag{
			Name: "grant-upgrades", EnvVars: []string{"GRANT_UPGRADES"}, Destination: &s.grantUpgrades,
			Usage: "only permit nodes to begin upgrades, within the limits of the upgrade policies of the DaemonSets in the namespace; the program then does not load a driver",
		},
	}
}

// upgrading reports whether the agent upgrades its node, which it does in a cluster.
func (s *settings) upgrading() bool { return s.upgradePolicy != "" }

// completeUpgrade reads the upgrade policy, if the agent upgrades its node.
func (s *settings) completeUpgrade() error {
	if !s.upgrading() {
		return nil
	}
	var err error
	if s.policy, err = upgrade.ParsePolicy([]byte(s.upgradePolicy)); err != nil {
		return cmdline.Usagef("flag --upgrade-policy: %s", err)
	}
	if s.cluster.DaemonSet == "" {
		return cmdline.Usagef("flag --upgrade-policy: it needs --daemonset-name: set it to the name of the agent's DaemonSet, whose policy has the limits for this node")
	}
	return s.cluster.Named()
}

// journal returns the path of the journal of upgrades.
func (s *settings) journal() string { return filepath.Join(s.config.Store, "upgrade.json") }

// applyUpgradeJournal leaves decisions to a running upgrade: which driver is loaded, and when it is
// replaced. It ignores a journal that cannot be read, which the upgrade reports and replaces.
func (s *settings) applyUpgradeJournal(d *loader.Desired) {
	j, _ := upgrade.ReadJournal(s.journal())
	d.Keep, d.Instead = true, j.Driver
	if j.State.Changing() {
		d.Upgrading = upgradeState(j)
	}
}

// upgradeState describes the state of an upgrade.
func upgradeState(j upgrade.Journal) string {
	return fmt.Sprintf("the upgrade to driver %s has the state %s", j.Target, j.State)
}

// upgrades is the part of the agent that upgrades the driver of its node.
type upgrades struct {
	*upgrade.Upgrade
	events *kube.Events
	client *kube.Client
	owner  *cluster.Owner
}

// upgrader returns the upgrades for a loader.
func (s *settings) upgrader(l *loader.Loader, log *slog.Logger) (*upgrades, error) {
	client, err := kube.New(kube.Config{Node: s.cluster.NodeName, Agent: loader.Name, Log: log})
	if err != nil {
		return nil, cmdline.Usagef("flag --upgrade-policy: it needs the API server: %s", err)
	}
	u := &upgrades{events: kube.NewEvents(client), client: client, owner: s.cluster.Owner(&cluster.API{Client: client}, log)}
	u.owner.Left = true
	plugin := &pluginFact{dir: s.config.Contract, log: log}
	u.Upgrade = upgrade.New(upgrade.Config{
		Client: client, Events: u.events, Driver: swapper{l, plugin}, Log: log, Moved: l.Again,
		Desired: func(state upgrade.State) (upgrade.Desired, error) {
			target, err := l.Target(state.Active())
			return upgrade.Desired{Driver: target, Policy: s.policy}, err
		},
		Offered:   plugin.awaitReady,
		DaemonSet: s.cluster.Namespace + "/" + s.cluster.DaemonSet, Journal: s.journal(), PauseLabel: s.pauseLabel,
		Optional: func() (*nodestate.Condition, bool) { return optionalCondition(l.State()) },
		Board:    kube.Object{API: "v1", Resource: "configmaps", Namespace: s.cluster.Namespace, Name: upgrade.BoardName},
	})
	return u, nil
}

// granterName is the field manager of the grants.
const granterName = loader.Name + "-upgrades"

// granter returns the program that permits nodes to upgrade. It runs anywhere in the cluster.
func (s *settings) granter(log *slog.Logger) (*agent.Agent, error) {
	client, err := kube.New(kube.Config{Node: s.cluster.NodeName, Agent: granterName, Log: log})
	if err != nil {
		return nil, cmdline.Usagef("flag --grant-upgrades: it needs the API server: %s", err)
	}
	w := grants.New(grants.Config{Client: client, Namespace: s.cluster.Namespace, Log: log})
	return &agent.Agent{Parts: []agent.Part{{Name: "grants", Run: w.Run, Ready: w.Ready}}}, nil
}

// ready returns the error of a loader. It adds the state of the upgrade, and the error of the
// watches on the API server, if there is one.
func (u *upgrades) ready(loaderErr error) error {
	apiErr := u.client.Failing()
	j := u.Journal()
	if loaderErr == nil || !j.State.Active() {
		return errors.Join(loaderErr, apiErr)
	}
	errs := []error{loaderErr, errors.New(upgradeState(j))}
	if j.Cause != nil {
		errs = append(errs, cause.Lines([]cause.Cause{*j.Cause})...)
	}
	return errors.Join(append(errs, apiErr)...)
}
