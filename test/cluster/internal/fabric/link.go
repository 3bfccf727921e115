package fabric

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// attach creates a link whose other end is a port of the bridge.
func attach(h *netlink.Handle, name, port string, ns netns.NsHandle, fabric *netlink.Handle) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: port, PeerNamespace: netlink.NsFd(ns)}
	if err := h.LinkAdd(veth); err != nil {
		return fmt.Errorf("create link %s of %s: %w", name, port, err)
	}
	far, err := fabric.LinkByName(port)
	if err != nil {
		return fmt.Errorf("find port %s: %w", port, err)
	}
	br, err := fabric.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	if err := fabric.LinkSetMaster(far, br); err != nil {
		return fmt.Errorf("attach port %s to bridge: %w", port, err)
	}
	if err := up(fabric, port); err != nil {
		return err
	}
	return up(h, name)
}

func up(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up link %s: %w", name, err)
	}
	return nil
}

func address(h *netlink.Handle, name string, addr netip.Prefix) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipNet(addr)}); err != nil {
		return fmt.Errorf("set address %s of link %s: %w", addr, name, err)
	}
	return nil
}

// route adds a route through the link, and through the gateway if it is valid.
func route(h *netlink.Handle, name string, to netip.Prefix, gateway netip.Addr) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to)}
	if gateway.IsValid() {
		r.Gw = gateway.AsSlice()
	} else {
		r.Scope = netlink.SCOPE_LINK
	}
	if err := h.RouteAdd(r); err != nil {
		return fmt.Errorf("add route to %s: %w", to, err)
	}
	return nil
}

// ipNet converts a prefix to the standard library's older type.
func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
