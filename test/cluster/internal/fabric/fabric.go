// Package fabric creates the network that connects the nodes of a cluster and the
// machine. A bridge in its own network namespace connects them, so that the firewall of
// the machine does not affect the traffic between nodes. The machine itself gets one
// link.
package fabric

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"outrigger.dev/test/cluster/internal/plan"
)

const (
	// HostLink is the machine's only link to the fabric.
	HostLink = "outrigger0"
	bridge   = "fabric0"
	nodeLink = "eth0"
)

// Fabric is the network of one cluster. A mount on a file keeps its namespace alive.
type Fabric struct {
	plan plan.Plan
	file string
}

// New returns a fabric. A mount on file keeps its namespace alive. New creates nothing.
func New(p plan.Plan, file string) Fabric { return Fabric{plan: p, file: file} }

// Create creates the namespace, its bridge, and the machine's link.
func (f Fabric) Create() error {
	if err := f.checkRoutes(); err != nil {
		return err
	}
	ns, err := f.createNamespace()
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("enter fabric: %w", err)
	}
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = bridge
	if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("create bridge %s: %w", bridge, err)
	}
	if err := up(h, bridge); err != nil {
		return err
	}
	host, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer host.Close()
	if err := attach(host, HostLink, "host", ns, h); err != nil {
		return err
	}
	if err := address(host, HostLink, netip.PrefixFrom(f.plan.HostIP, f.plan.NodeCIDR.Bits())); err != nil {
		return err
	}
	for _, n := range f.plan.Nodes {
		if err := route(host, HostLink, n.PodCIDR, n.IP); err != nil {
			return err
		}
	}
	return nil
}

// Join gives the node, whose first process is pid, its link and its routes.
func (f Fabric) Join(n plan.Node, pid int) error {
	ns, err := netns.GetFromPath(f.file)
	if err != nil {
		return fmt.Errorf("open fabric: %w", err)
	}
	defer func() { _ = ns.Close() }()
	fabric, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("enter fabric: %w", err)
	}
	defer fabric.Close()
	nodeNS, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("open network of %s: %w", n.Name, err)
	}
	defer func() { _ = nodeNS.Close() }()
	node, err := netlink.NewHandleAt(nodeNS)
	if err != nil {
		return fmt.Errorf("enter network of %s: %w", n.Name, err)
	}
	defer node.Close()
	if err := up(node, "lo"); err != nil {
		return err
	}
	if err := attach(node, nodeLink, n.Name, ns, fabric); err != nil {
		return err
	}
	if err := address(node, nodeLink, netip.PrefixFrom(n.IP, f.plan.NodeCIDR.Bits())); err != nil {
		return err
	}
	// A connection to a service needs a route before it is redirected.
	if err := route(node, nodeLink, f.plan.ServiceCIDR, netip.Addr{}); err != nil {
		return err
	}
	for _, other := range f.plan.Nodes {
		if other.Name == n.Name {
			continue
		}
		if err := route(node, nodeLink, other.PodCIDR, other.IP); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the fabric, whatever its state.
func (f Fabric) Remove() error {
	var errs []error
	link, err := netlink.LinkByName(HostLink)
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.As(err, &netlink.LinkNotFoundError{}) {
		errs = append(errs, fmt.Errorf("remove link %s: %w", HostLink, err))
	}
	if err := unix.Unmount(f.file, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		errs = append(errs, fmt.Errorf("unmount fabric %s: %w", f.file, err))
	}
	if err := os.Remove(f.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("remove fabric: %w", err))
	}
	return errors.Join(errs...)
}

// checkRoutes rejects a network that the machine already uses.
func (f Fabric) checkRoutes() error {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		dst, ok := prefix(r.Dst)
		if !ok || dst.Bits() == 0 {
			continue
		}
		for _, ours := range []netip.Prefix{f.plan.NodeCIDR, f.plan.PodCIDR} {
			if dst.Overlaps(ours) {
				return fmt.Errorf("create cluster network %s: the machine has a route to %s: remove it first", ours, dst)
			}
		}
	}
	return nil
}

// createNamespace creates a network namespace and keeps it alive with a mount on the
// file.
func (f Fabric) createNamespace() (netns.NsHandle, error) {
	// If the thread cannot return to its own network, it stays locked and ends with this
	// goroutine.
	runtime.LockOSThread()
	origin, err := netns.Get()
	if err != nil {
		return netns.None(), fmt.Errorf("open own network: %w", err)
	}
	defer func() { _ = origin.Close() }()
	ns, err := netns.New()
	if err != nil {
		return netns.None(), fmt.Errorf("create fabric: %w", err)
	}
	if err := netns.Set(origin); err != nil {
		return netns.None(), fmt.Errorf("return to own network: %w", err)
	}
	runtime.UnlockOSThread()
	if err := os.MkdirAll(filepath.Dir(f.file), 0o755); err != nil {
		return netns.None(), fmt.Errorf("create fabric: %w", err)
	}
	if err := os.WriteFile(f.file, nil, 0o444); err != nil {
		return netns.None(), fmt.Errorf("create fabric: %w", err)
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", ns), f.file, "", unix.MS_BIND, ""); err != nil {
		return netns.None(), fmt.Errorf("keep fabric at %s: %w", f.file, err)
	}
	return ns, nil
}

// prefix converts the standard library's older type of a network.
func prefix(n *net.IPNet) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits), ok
}
