package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/agents/container-toolkit/internal/install"
	"outrigger.dev/agents/container-toolkit/internal/upkeep"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
)

const (
	// lockRetry is the retry interval while another process holds the lock.
	lockRetry = time.Second
	// undoLimit limits the removal of a part, which must end within the grace period of the pod.
	undoLimit = 20 * time.Second
)

// parts returns the parts of the agent, in the order of their start. The lock is first, so
// that only one toolkit changes the node. The tools come before the parts that refer to them.
// The parts are withdrawn in reverse order.
func (t *toolkit) parts() []agent.Part {
	parts := []agent.Part{t.lockPart()}
	if t.nri != nil {
		// The plugin starts before the tools: until it is connected, containers start without their GPUs.
		parts = append(parts, agent.Part{Name: string(upkeep.NRI), Run: t.nri.Run})
	}
	tools := t.keeper(upkeep.KeeperConfig{Part: upkeep.Tools, Reconcile: t.install})
	return append(parts,
		agent.Part{
			Name: string(upkeep.Tools), Run: tools.Run, Started: tools.Done(), Reload: tools.Reload, Withdraw: t.undo(t.removeTools),
		},
		t.specsPart(),
		t.enginePart(),
		agent.Part{
			Name: "fact toolkit-ready", Run: t.fact.Keep, Ready: t.status.Err, Collectors: []prometheus.Collector{t.status.Metrics()},
			Withdraw: t.undo(func(context.Context) error { return t.withdraw() }),
		},
	)
}

func (t *toolkit) keeper(k upkeep.KeeperConfig) *upkeep.Keeper {
	k.Status, k.Log = t.status, t.log
	return upkeep.NewKeeper(k)
}

// lockPart waits until this is the only toolkit of the node.
func (t *toolkit) lockPart() agent.Part {
	k := t.keeper(upkeep.KeeperConfig{
		Part: upkeep.Sole, Once: true, Retry: pace.Backoff{First: lockRetry, Most: lockRetry},
		Reconcile: func(context.Context) (upkeep.Result, error) { return upkeep.Result{}, t.lock.Acquire() },
	})
	return agent.Part{
		Name: string(upkeep.Sole), Run: k.Run, Started: k.Done(), Close: t.lock.Release,
		Reload: func() { t.log.Info("reloading") },
	}
}

func (t *toolkit) specsPart() agent.Part {
	p := agent.Part{Name: string(upkeep.Specs), Withdraw: t.undo(func(context.Context) error {
		// The fact CUDAReady depends on this toolkit, so it is removed even if another agent wrote it.
		return errors.Join(t.writer.Remove(), t.nodes.undo(), t.settings.contract.Remove(contract.CUDAReady))
	})}
	if t.settings.cdi {
		p.Run, p.Reload, p.Collectors = t.specs.Run, t.specs.Reload, []prometheus.Collector{t.specs.Metrics()}
		return p
	}
	p.Run = func(context.Context) error {
		if err := t.writer.Remove(); err != nil {
			t.log.Error("cannot remove the CDI specs of an earlier start", "err", err)
		}
		return nil
	}
	return p
}

func (t *toolkit) enginePart() agent.Part {
	p := agent.Part{Name: string(upkeep.Engine), Withdraw: t.undo(t.restoreEngine)}
	if t.settings.engine.enabled {
		k := t.keeper(upkeep.KeeperConfig{Part: upkeep.Engine, Reconcile: t.configureEngine})
		p.Run, p.Reload = k.Run, k.Reload
		return p
	}
	p.Run = func(ctx context.Context) error {
		if err := t.restoreEngine(ctx); err != nil {
			t.log.Error("cannot revert the changes of an earlier start in the container engine's config", "err", err)
		}
		return nil
	}
	return p
}

// install installs the tools, with a config that follows the config of the engine.
func (t *toolkit) install(ctx context.Context) (upkeep.Result, error) {
	config, watched, err := t.toolConfig(ctx)
	if err != nil {
		return upkeep.Result{}, err
	}
	t.installer.SetConfig(config)
	after, err := t.installer.Install()
	return upkeep.Result{After: after, Watched: append(watched, t.installer.Watched()...)}, err
}

// once installs and configures everything once.
func (t *toolkit) once(ctx context.Context) error {
	_, err := t.install(ctx)
	if err == nil && t.settings.cdi {
		err = t.specs.Once(ctx)
	}
	switch {
	case err != nil:
		return err
	case t.settings.engine.enabled:
		_, err = t.configureEngine(ctx)
		return err
	default:
		return t.restoreEngine(ctx)
	}
}

// undo wraps f, which reverts a part. The result calls f only if this process holds the lock. The
// call may outlast ctx, because an engine may need longer to load its config.
func (t *toolkit) undo(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !t.lock.Held() {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		err := f(ctx)
		t.referred = t.referred || err != nil
		return err
	}
}

// removeTools removes the tools. They stay while containers run that were started through them,
// because an engine needs the same tool to stop such a container. They also stay if the removal
// of a part that refers to them failed, because an engine without its runtime cannot start
// containers.
func (t *toolkit) removeTools(context.Context) error {
	s := t.settings
	dir := s.dir.Tools()
	if t.referred {
		t.log.Error("keeping the tools, because the config of the container engine or the CDI specs still refer to them: run the command, then remove the folder",
			"command", unconfigure(dir), "folder", dir)
		return nil
	}
	if users := install.Users(s.host.ProcRoot, s.engine.HostRoot, dir); len(users) > 0 {
		t.log.Warn("keeping the tools, because containers that they started still run: remove the folder when these containers have ended",
			"folder", dir, "containers", strings.Join(users, ", "))
		return nil
	}
	return t.installer.Remove()
}

// unconfigure returns the command that reverts the config of the container engine on a node.
// dir is the folder of the tools.
func unconfigure(dir string) string { return dir + "/nvidia-ctk runtime unconfigure" }
