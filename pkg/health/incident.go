package health

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
)

// Incident is an XID that counts against a GPU or one of its instances, or that is a warning. It ends
// when a snapshot proves that the GPU works again.
type Incident struct {
	Key
	// Device is the UUID of the MIG device that the XID hit. It is empty if the XID hit more than one
	// compute instance.
	Device gpu.UUID
	// First is the time of the first XID, and Last the time of the last XID with the same end.
	First, Last time.Time
	// Away is set if the GPU did not answer at some time since the XID. The driver initializes such
	// a GPU anew before it answers again.
	Away bool
	// Asked is set after the driver has asked for a recovery since the XID.
	Asked bool
}

// Key identifies an Incident. The ComputeInstance and the GPUInstance are gpu.NoInstance if the XID
// concerns all of them.
type Key struct {
	Instance
	XID uint64
}

// Incidents returns all incidents, ordered by GPU, instance and time.
func (m *Machine) Incidents() []Incident {
	var out []Incident
	for id, g := range m.gpus {
		for s, list := range g.causes {
			for _, x := range list {
				out = append(out, Incident{
					Key: Key{Instance{GPU: id, GPUInstance: s.gi, ComputeInstance: s.ci}, x.xid}, Device: x.device,
					First: x.first, Last: x.last, Away: x.away, Asked: x.asked,
				})
			}
		}
	}
	slices.SortFunc(out, func(a, b Incident) int {
		return cmp.Or(
			cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.GPUInstance, b.GPUInstance), cmp.Compare(a.ComputeInstance, b.ComputeInstance),
			a.First.Compare(b.First), cmp.Compare(a.XID, b.XID),
		)
	})
	return out
}

// Restore adds incidents that another process observed, including XIDs that the rules ignore now. The
// next snapshots decide about them as about incidents of this process.
func (m *Machine) Restore(incidents []Incident) {
	for _, in := range incidents {
		m.gpu(in.GPU).restore(in)
	}
}

// restore adds an incident, unless this process has observed the same XID.
func (g *gpuState) restore(in Incident) {
	s := scope{in.GPUInstance, in.ComputeInstance}
	i := slices.IndexFunc(g.causes[s], func(x incident) bool { return x.xid == in.XID })
	if i >= 0 {
		g.causes[s][i].asked = g.causes[s][i].asked || in.Asked
		return
	}
	g.causes[s] = append(g.causes[s], incident{
		xid: in.XID, first: in.First, last: in.Last, device: in.Device, away: in.Away, asked: in.Asked, restored: true,
	})
	slices.SortStableFunc(g.causes[s], func(a, b incident) int { return a.first.Compare(b.first) })
}

// incident is an XID of a part of a GPU. XIDs that are ignored when they occur make none.
type incident struct {
	xid uint64
	// first is the time when it first occurred.
	first time.Time
	// last is the time of the last XID with the same end.
	last time.Time
	// device is the UUID of the MIG device that the XID hit. It is empty if the XID hit more than one
	// compute instance.
	device gpu.UUID
	// away is set if the GPU did not answer at some time since the XID. The driver initializes such
	// a GPU anew before it answers again.
	away bool
	// restored is set if another process, which has ended or still runs, observed all of its XIDs.
	restored bool
	// asked is set after the driver has asked for a recovery since the XID.
	asked bool
}

// end returns the condition that ends the incident.
func (x incident) end() end { return endOf(x.xid) }

// gravestOf returns the gravest failure and the gravest warning of a list, and the first of several,
// because later XIDs are often only a consequence of it.
func gravestOf(list []incident, rules Rules) []incident {
	var out []incident
	for _, severity := range []Severity{Failure, Warning} {
		of := slices.DeleteFunc(slices.Clone(list), func(x incident) bool { return rules.severityOf(x.xid) != severity })
		if len(of) > 0 {
			out = append(out, slices.MaxFunc(of, func(a, b incident) int { return int(a.end()) - int(b.end()) }))
		}
	}
	return out
}

// unseen extends the fix of a restored incident for a driver that cannot prove a reset.
const unseen = "; if it was reset while no agent ran, send SIGHUP to the agents"

// finding returns the fault that an XID reported. r is the recovery action that the driver asks for.
func (x incident) finding(rules Rules, r gpu.Recovery) Finding {
	action, name := LookUpXID(x.xid)
	f := Finding{
		Class: ofAction(action), Severity: rules.severityOf(x.xid), Kind: cause.DeviceXID, XID: x.xid,
		Text: fmt.Sprintf("xid %d", x.xid),
	}
	if name != "" {
		f.Text = fmt.Sprintf("%s (%s)", f.Text, name)
	}
	switch x.end() {
	case afterReset:
		f.Fix = "reset the GPU"
	case afterReboot:
		f.Fix = "reset the GPU or reboot the node"
	default:
		f.Fix = fmt.Sprintf("healthy again after %s without another", rules.quiet())
	}
	if x.restored && r == gpu.RecoveryUnknown && x.end() != afterQuiet {
		f.Fix += unseen
	}
	return f
}
