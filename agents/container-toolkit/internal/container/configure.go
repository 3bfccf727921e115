// Package container gives the GPUs of a node to a container that a runtime has created, but not
// started. The container gets device nodes, access to them, the driver's files, and a view of the
// driver in /proc. The package implements nvidia-container-cli configure.
//
// All sources of mounts are found and opened on the host. Only then does a thread enter the
// container's mount namespace. There, it uses only package rootfs, so that an image can choose
// neither a source nor a target of a mount.
package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
	"outrigger.dev/agents/container-toolkit/internal/devcgroup"
	"outrigger.dev/agents/container-toolkit/internal/rootfs"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu/index"
)

// Config describes the driver of the node.
type Config struct {
	Driver *driverroot.Root
	// Proc is the path of the host's /proc.
	Proc string
	// RunRoot is the folder with the files that the agents of a node share.
	RunRoot string
	Specs   *Specs
	// Warn receives problems that do not prevent the container from working.
	Warn func(string)
	// MPSFolder is the folder of the MPS pipes, if it is not the default folder.
	MPSFolder string
}

// Container is the container to configure.
type Container struct {
	// PID is the ID of the container's first process.
	PID int
	// Rootfs is the path of the root file system in the container's mount namespace.
	Rootfs string
	// NoCgroups leaves the device cgroup unchanged. Engines that run without root rights need it,
	// because they cannot restrict devices.
	NoCgroups bool
	// NoDevices skips the device nodes, because the engine has made them.
	NoDevices bool
	// Compat selects how the CUDA compatibility libraries of the image are handled.
	Compat CompatMode
}

// systemdTimeout limits how long a container waits for systemd. systemd usually answers within
// milliseconds, but not while it reloads its units.
const systemdTimeout = 30 * time.Second

// Node has the driver's files and the GPUs of a node.
type Node struct {
	Content *driverroot.Content
	GPUs    []GPU
}

// Read reads the driver's files and the GPUs of the node.
func (c Config) Read() (*Node, error) {
	content, err := c.Driver.Find()
	if err != nil {
		return nil, err
	}
	gpus, err := GPUs(driverproc.Root(c.Proc))
	if err != nil {
		return nil, err
	}
	pin(gpus, index.New(index.Config{Contract: contract.Dir{Root: c.RunRoot, ProcRoot: c.Proc}, ReadOnly: true}))
	if c.MPSFolder != "" {
		if err := replaceMPSFolder(content, c.MPSFolder); err != nil {
			return nil, err
		}
	}
	return &Node{Content: content, GPUs: gpus}, nil
}

// Plan derives the plan of a container. debian is true for an image of Debian's family.
func (c Config) Plan(n *Node, r Request, debian bool) (*Plan, error) {
	return newPlan(n.Content, n.GPUs, c.Specs, r, debian)
}

// Configure gives a container the requested GPUs. If it returns an error, the container may be
// partly configured and must not be started.
func (c Config) Configure(n *Node, to Container, r Request) error {
	ns, err := openNamespace(c.Proc, to.PID)
	if err != nil {
		return err
	}
	defer ns.close() //nolint:errcheck // nothing was written
	var root *rootfs.Root
	if err := ns.inside(user{}, func() error {
		root, err = rootfs.Open(to.Rootfs)
		return err
	}); err != nil {
		return err
	}
	defer root.Close()
	plan, err := c.Plan(n, r, isDebian(root))
	if err != nil {
		return err
	}
	open, err := c.open(plan, to)
	if err != nil {
		return err
	}
	defer open.close() //nolint:errcheck // nothing was written
	if err := ns.inside(ns.root, func() error { return c.apply(root, open, plan, to, n.Content.Version) }); err != nil {
		return err
	}
	if to.NoCgroups {
		return nil
	}
	return c.allow(to.PID, plan.Nodes)
}

// isDebian reports whether the image has libraries in the folders of Debian's family.
func isDebian(root *rootfs.Root) bool {
	info, err := root.Stat("/etc/debian_version")
	return err == nil && info.Mode.IsRegular()
}

// allow lets the container open the devices.
func (c Config) allow(pid int, nodes []driverroot.DeviceNode) error {
	var devices []devcgroup.Device
	for _, n := range nodes {
		d, err := devcgroup.DeviceOf(n.HostPath)
		if err != nil {
			return err
		}
		devices = append(devices, d)
	}
	group, err := devcgroup.Find(c.Proc, pid)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), systemdTimeout)
	defer stop()
	// Call Record first: when systemd has answered, it has also finished the earlier requests of
	// the runtime.
	if err := group.Record(ctx, devices); err != nil {
		// The container works until systemd reloads.
		c.Warn(fmt.Sprintf("the container loses its GPUs at the next \"systemctl daemon-reload\": %v", err))
	}
	return group.Allow(devices)
}

// opened has all files that are mounted into a container. They are opened on the host.
type opened struct {
	files []injected
	proc  *procView
}

func (c Config) open(p *Plan, to Container) (o opened, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
		}
	}()
	add := func(hostPath, path string, a rootfs.Attributes) error {
		in, err := clone(hostPath, path, a)
		if err != nil {
			return fmt.Errorf("open %s for the container: %w", hostPath, err)
		}
		o.files = append(o.files, in)
		return nil
	}
	if !to.NoDevices {
		for _, n := range p.Nodes {
			// A read-only mount protects the mode and the owner of the host's node. The device stays writable.
			if err := add(n.HostPath, n.Path, rootfs.Attributes{ReadOnly: true, NoSuid: true, NoExec: true}); err != nil {
				return o, err
			}
		}
	}
	for _, f := range p.Files {
		if err := add(f.HostPath, f.Path, rootfs.Attributes{ReadOnly: true, NoSuid: true, NoDev: true}); err != nil {
			return o, err
		}
	}
	for _, f := range p.Sockets {
		if err := add(f.HostPath, f.Path, rootfs.Attributes{NoSuid: true, NoDev: true, NoExec: true}); err != nil {
			return o, err
		}
	}
	o.proc, err = newProcView(c.Proc, p.Proc)
	return o, err
}

func (o opened) close() error { return errors.Join(closeAll(o.files), o.proc.close()) }

// apply applies the plan to the container. The calling thread is in its mount namespace.
func (c Config) apply(root *rootfs.Root, o opened, p *Plan, to Container, version string) error {
	for _, in := range o.files {
		if err := in.mountInto(root); err != nil {
			return err
		}
	}
	if err := o.proc.mountInto(root); err != nil {
		return err
	}
	return p.job(to, version, c.CUDA(version)).Run(root, c.Warn)
}

// job returns the changes of the container's files that the mounts need.
func (p *Plan) job(to Container, driver, cuda string) cdihook.Job {
	job := cdihook.Job{Links: p.Links, Cache: true, Folders: []string{p.LibraryDir}, Profile: p.Screen}
	if to.Compat != CompatDisabled {
		job.Compat = cdihook.Compat{Driver: driver, CUDA: cuda}
	}
	return job
}
