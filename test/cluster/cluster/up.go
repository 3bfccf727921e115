package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/test/cluster/internal/cgroup"
	"outrigger.dev/test/cluster/internal/fabric"
	"outrigger.dev/test/cluster/internal/image"
	"outrigger.dev/test/cluster/internal/kubeapi"
	"outrigger.dev/test/cluster/internal/machine"
	"outrigger.dev/test/cluster/internal/plan"
	"outrigger.dev/test/cluster/internal/render"
)

// The time limits of the steps, for a busy machine.
const (
	apiServerLimit = 2 * time.Minute
	engineLimit    = time.Minute
	nodeLimit      = 2 * time.Minute
	cleanLimit     = time.Minute
)

// Up starts a cluster, and returns when its nodes are ready and have the images. If a cluster of
// the same shape is running, Up imports the images there and returns it. Up removes the remains of
// a dead cluster. If it fails, it removes everything that it created.
func Up(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check cluster config: %w", err)
	}
	lock, err := machine.TakeLock(ctx, newProgress(cfg.Progress).busy)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }()

	c, err := adopt(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if c != nil {
		return c, c.importAll(ctx, cfg.Images)
	}
	if err := clean(ctx); err != nil {
		return nil, fmt.Errorf("remove a dead cluster: %w", err)
	}
	c = newCluster(machine.State{Shape: cfg.shape(), BinDir: cfg.BinDir}, cfg.Progress)
	c.archives = cfg.Images
	if err := c.create(ctx); err != nil {
		// Clean up even if ctx has ended.
		cleanCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
		defer cancel()
		c.explain(cleanCtx, err)
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), clean(cleanCtx), removeStateDir())
	}
	return c, nil
}

// adopt returns the running cluster, or nil if there is none or it is dead. It returns an error if
// the cluster has another shape.
func adopt(ctx context.Context, cfg Config) (*Cluster, error) {
	state, err := machine.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := newCluster(state, cfg.Progress)
	if !state.Complete || !c.alive(ctx) {
		c.progress.say("found a dead cluster: removing it")
		return nil, nil
	}
	if state.Shape != cfg.shape() {
		return nil, fmt.Errorf("start cluster: a cluster with another shape is running, %+v, want %+v: remove it first with cluster down", state.Shape, cfg.shape())
	}
	c.progress.say("cluster of %d nodes is up already; kubeconfig %s", len(c.plan.Nodes), c.Kubeconfig())
	return c, nil
}

// alive reports whether the first process of every node answers.
func (c *Cluster) alive(ctx context.Context) bool {
	for _, n := range c.plan.Nodes {
		if _, err := c.client(n).Status(ctx); err != nil {
			return false
		}
	}
	return true
}

// create creates the cluster on a machine without remains of another one.
func (c *Cluster) create(ctx context.Context) error {
	state, tree, err := c.saveState()
	if err != nil {
		return err
	}
	net := fabric.New(c.plan, machine.Fabric())
	if err := net.Create(); err != nil {
		return err
	}
	c.progress.say("network created")
	credentials, err := render.NewCredentials(c.plan)
	if err != nil {
		return err
	}
	admin, err := credentials.Admin()
	if err != nil {
		return err
	}
	if err := os.WriteFile(machine.Kubeconfig(), admin, 0o600); err != nil {
		return fmt.Errorf("write admin kubeconfig: %w", err)
	}
	var archives []string
	if !c.plan.Shape.Kwok {
		if archives, err = c.writeImages(ctx); err != nil {
			return err
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, n := range c.plan.Nodes {
		group.Go(func() error {
			return starter{cluster: c, net: net, tree: tree, credentials: credentials}.start(groupCtx, n)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	c.progress.say("%d nodes started", len(c.plan.Nodes))
	if err := c.startKubernetes(ctx, archives); err != nil {
		return err
	}
	state.Complete = true
	if err := state.Save(); err != nil {
		return err
	}
	c.progress.say("cluster is up; kubeconfig %s", c.Kubeconfig())
	return nil
}

// saveState records the state of the machine before any change, and creates the root of
// the cluster's cgroups.
func (c *Cluster) saveState() (machine.State, cgroup.Tree, error) {
	state := machine.State{BinDir: c.binDir, Shape: c.plan.Shape}
	tree, err := cgroup.Find(cgroup.MountPoint, machine.Cgroup)
	if err != nil {
		return state, tree, err
	}
	if state.Sysctls, err = machine.ReadSysctls(); err != nil {
		return state, tree, err
	}
	if state.Controllers, err = tree.Controllers(); err != nil {
		return state, tree, err
	}
	if err := state.Save(); err != nil {
		return state, tree, err
	}
	return state, tree, tree.Create()
}

// startKubernetes starts the components of all nodes, each as soon as its dependencies
// are ready.
func (c *Cluster) startKubernetes(ctx context.Context, archives []string) error {
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); _ = group.Wait() }()
	engines := map[string]<-chan struct{}{}
	for _, n := range c.plan.Nodes {
		if c.plan.Shape.Kwok {
			break
		}
		if err := c.Start(ctx, string(n.Engine), n.Name); err != nil {
			return err
		}
		ready := make(chan struct{})
		engines[n.Name] = ready
		group.Go(func() error { return c.prepareEngine(ctx, n, archives, ready) })
	}
	if err := errors.Join(c.Start(ctx, render.Etcd), c.Start(ctx, render.APIServer)); err != nil {
		return err
	}
	api, err := kubeapi.New(c.Kubeconfig())
	if err != nil {
		return err
	}
	first := c.plan.ControlPlane()
	if err := wait(ctx, apiServerLimit, api.Ready); err != nil {
		if failed := (componentError{}); errors.As(context.Cause(ctx), &failed) {
			return failed // the error of a container engine ended the wait
		}
		return componentError{first.Name, render.APIServer, err}
	}
	c.progress.say("API server ready")
	if err := errors.Join(c.Start(ctx, render.ControllerManager), c.Start(ctx, render.Scheduler)); err != nil {
		return err
	}
	if c.plan.Shape.Kwok {
		if err := c.Start(ctx, render.Kwok); err != nil {
			return err
		}
		return c.waitForAccount(ctx, api)
	}
	for _, n := range c.plan.Nodes {
		group.Go(func() error { return c.startWorker(ctx, n, api, engines[n.Name]) })
	}
	group.Go(func() error { return c.waitForAccount(ctx, api) })
	return group.Wait()
}

// waitForAccount waits until pods can be created.
func (c *Cluster) waitForAccount(ctx context.Context, api *kubeapi.Client) error {
	if err := wait(ctx, nodeLimit, api.DefaultAccount); err != nil {
		return componentError{c.plan.ControlPlane().Name, render.ControllerManager, err}
	}
	return nil
}

// prepareEngine waits until the container engine of a node answers. It imports the archives own, with
// the images that every pod needs, closes the channel ready, and imports the images of the config.
func (c *Cluster) prepareEngine(ctx context.Context, n plan.Node, own []string, ready chan<- struct{}) error {
	err := wait(ctx, engineLimit, func(ctx context.Context) error { return c.engineReady(ctx, n) })
	if err == nil {
		err = c.importAll(ctx, own, n.Name)
	}
	if err == nil {
		close(ready)
		err = c.importAll(ctx, c.archives, n.Name)
	}
	if err != nil {
		return componentError{n.Name, string(n.Engine), err}
	}
	return nil
}

// importAll imports image archives on the given nodes, or on all.
func (c *Cluster) importAll(ctx context.Context, archives []string, nodes ...string) error {
	for _, archive := range archives {
		if err := c.LoadImage(ctx, archive, nodes...); err != nil {
			return err
		}
	}
	return nil
}

// startWorker starts the components that run pods on a node, once its engine is ready.
func (c *Cluster) startWorker(ctx context.Context, n plan.Node, api *kubeapi.Client, engine <-chan struct{}) error {
	select {
	case <-engine:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := errors.Join(c.Start(ctx, render.Kubelet, n.Name), c.Start(ctx, render.Proxy, n.Name)); err != nil {
		return err
	}
	if err := wait(ctx, nodeLimit, func(ctx context.Context) error { return api.NodeReady(ctx, n.Name) }); err != nil {
		return componentError{n.Name, render.Kubelet, err}
	}
	c.progress.say("%s ready", n.Name)
	return nil
}

// writeImages writes the images that every node gets.
func (c *Cluster) writeImages(ctx context.Context) ([]string, error) {
	box, err := image.Busybox(ctx, busybox)
	if err != nil {
		return nil, err
	}
	var archives []string
	for name, i := range map[string]image.Image{"pause": image.Pause(filepath.Join(c.binDir, componentFolder)), "busybox": box} {
		path := filepath.Join(machine.DataDir, name+".tar")
		if err := writeFile(path, i.WriteArchive); err != nil {
			return nil, err
		}
		archives = append(archives, path)
	}
	return archives, nil
}

// writeFile creates a file. The function write writes its content.
func writeFile(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	return errors.Join(write(file), file.Close())
}
