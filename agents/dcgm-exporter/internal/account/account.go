// Package account sums the use of GPUs and GPU instances by each container: the time since the
// container got the device, the busy time, and the energy. It has no clock and does no I/O.
package account

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/podresources"
)

// Device is a GPU, or one of its GPU instances.
type Device struct {
	GPU gpu.UUID
	// Instance is the ID of the GPU instance, or gpu.NoInstance for the GPU.
	Instance uint32
}

// Reading has the values of a device at one moment, and the containers that have the device.
type Reading struct {
	Device
	At    time.Time
	Users []podresources.User
	// Busy is the share of time that the device was busy, below 0 if it is unknown.
	Busy float64
	// Joules is the energy that the device has used since some fixed moment, below 0 if it is
	// unknown.
	Joules float64
	// Memory is the memory in use, in bytes, below 0 if it is unknown.
	Memory float64
	// Processes are the processes on the device whose containers are known. It is nil if
	// processes cannot be assigned to containers. Then the use by each of several containers
	// is unknown.
	Processes []Process
}

// Process is a process on a device.
type Process struct {
	PID  uint32
	User podresources.User
	// SMSeconds is how long the process has kept the device busy, in seconds. Memory is the
	// memory that it uses, in bytes.
	SMSeconds float64
	Memory    uint64
}

// Book has the accounts of all containers. Its zero value is empty. It is not safe for
// concurrent use.
type Book struct {
	devices  map[Device]*device
	accounts map[key]*account
}

// key identifies a container and a device.
type key struct {
	Device
	namespace, pod, container string
}

type device struct {
	at        time.Time
	joules    float64
	users     map[key]bool
	processes map[uint32]float64
}

type account struct {
	exposition.Account
	// leftAt is the time when the container was first seen without the device.
	leftAt time.Time
}

const (
	// longestGap is the longest time between two readings that counts. After a longer time,
	// the use between the readings is unknown.
	longestGap = 5 * time.Minute
	// accountRetention is how long the account of a container is kept after the container no
	// longer has the device, so that a scrape gets the final values.
	accountRetention = 2 * time.Minute
)

// Add adds a reading.
func (b *Book) Add(r Reading) {
	if b.devices == nil {
		b.devices, b.accounts = map[Device]*device{}, map[key]*account{}
	}
	users := map[key]bool{}
	for _, u := range r.Users {
		k := key{r.Device, u.Namespace, u.Pod, u.Container}
		users[k] = true
		if b.accounts[k] == nil {
			u.Replica = ""
			b.accounts[k] = &account{Account: exposition.Account{GPU: r.GPU, Instance: r.Instance, User: u}}
		}
		b.accounts[k].leftAt = time.Time{}
	}
	next := &device{at: r.At, joules: r.Joules, users: users, processes: map[uint32]float64{}}
	for _, p := range r.Processes {
		next.processes[p.PID] = p.SMSeconds
	}
	last := b.devices[r.Device]
	b.devices[r.Device] = next
	for k, a := range b.accounts {
		if k.Device == r.Device {
			a.update(users[k], r, len(users) == 1)
		}
	}
	if last == nil || !r.At.After(last.at) || r.At.Sub(last.at) > longestGap {
		return
	}
	b.share(r, last, users)
}

// update updates the values that do not depend on the time since the last reading.
func (a *account) update(has bool, r Reading, alone bool) {
	a.Memory, a.Busy = -1, -1
	if !has {
		if a.leftAt.IsZero() {
			a.leftAt = r.At
		}
		return
	}
	switch {
	case alone:
		a.Memory = r.Memory
	case r.Processes != nil:
		a.Memory = 0
		for _, p := range r.Processes {
			if a.belongsTo(p.User) {
				a.Memory += float64(p.Memory)
			}
		}
	}
}

// belongsTo reports whether the account belongs to a container.
func (a *account) belongsTo(u podresources.User) bool {
	return a.User.Namespace == u.Namespace && a.User.Pod == u.Pod && a.User.Container == u.Container
}

// share adds the use since the last reading to the accounts of the containers that had the
// device all that time.
func (b *Book) share(r Reading, last *device, users map[key]bool) {
	took := r.At.Sub(last.at).Seconds()
	var had []*account
	for k := range users {
		if last.users[k] {
			had = append(had, b.accounts[k])
		}
	}
	alone := len(users) == 1 && len(last.users) == 1
	busy, known := make([]float64, len(had)), make([]bool, len(had))
	sum := 0.0
	for i, a := range had {
		a.Allocated += took
		if busy[i], known[i] = a.busy(r, last, took, alone); known[i] {
			a.Known = true
			a.SM += busy[i]
			a.Busy = busy[i] / took
			sum += busy[i]
			if busy[i] == 0 {
				a.Idle += took
			}
		}
	}
	spent := r.Joules - last.joules
	if r.Joules < 0 || last.joules < 0 || spent < 0 {
		return
	}
	for i, a := range had {
		a.Metered = a.Metered || alone || known[i]
		switch {
		case alone:
			a.Joules += spent
		case known[i] && sum > 0:
			a.Joules += spent * busy[i] / sum
		case known[i]:
			a.Joules += spent / float64(len(users))
		}
	}
}

// busy returns for how many seconds a container kept the device busy since the last reading. It
// returns false if that is unknown.
func (a *account) busy(r Reading, last *device, took float64, alone bool) (seconds float64, known bool) {
	if alone {
		return r.Busy * took, r.Busy >= 0
	}
	if r.Processes == nil {
		return 0, false
	}
	for _, p := range r.Processes {
		if a.belongsTo(p.User) {
			seconds += max(0, p.SMSeconds-last.processes[p.PID])
		}
	}
	return min(seconds, took), true
}

// Accounts returns all accounts, ordered. It removes the accounts of containers that have not had
// the device for accountRetention.
func (b *Book) Accounts(now time.Time) []exposition.Account {
	var out []exposition.Account
	for k, a := range b.accounts {
		if !a.leftAt.IsZero() && now.Sub(a.leftAt) > accountRetention {
			delete(b.accounts, k)
			continue
		}
		out = append(out, a.Account)
	}
	slices.SortFunc(out, func(x, y exposition.Account) int {
		return cmp.Or(cmp.Compare(x.GPU, y.GPU), cmp.Compare(x.Instance, y.Instance),
			cmp.Compare(x.User.Namespace, y.User.Namespace), cmp.Compare(x.User.Pod, y.User.Pod), cmp.Compare(x.User.Container, y.User.Container))
	})
	return out
}

// Retain keeps the devices that the function keep selects, and removes all others.
func (b *Book) Retain(keep func(Device) bool) {
	maps.DeleteFunc(b.devices, func(d Device, _ *device) bool { return !keep(d) })
	maps.DeleteFunc(b.accounts, func(k key, _ *account) bool { return !keep(k.Device) })
}
