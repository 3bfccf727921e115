package account_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outrigger.dev/agents/dcgm-exporter/internal/account"
	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/podresources"
)

var (
	began = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	dev   = account.Device{GPU: "GPU-1", Instance: gpu.NoInstance}
	train = podresources.User{Namespace: "ml", Pod: "train", Container: "main"}
	serve = podresources.User{Namespace: "ml", Pod: "serve", Container: "main"}
)

// at is a reading after so many seconds.
func at(seconds int, users ...podresources.User) account.Reading {
	return account.Reading{Device: dev, At: began.Add(time.Duration(seconds) * time.Second), Users: users, Busy: -1, Joules: -1, Memory: -1}
}

// check compares the accounts of a book.
func check(t *testing.T, b *account.Book, now int, want ...exposition.Account) {
	t.Helper()
	got := b.Accounts(began.Add(time.Duration(now) * time.Second))
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
		t.Error(diff)
	}
}

func TestAContainerAlone(t *testing.T) {
	var b account.Book
	for i, busy := range []float64{0.9, 0.5, 0, 0.25} {
		r := at(10*i, train)
		r.Busy, r.Joules, r.Memory = busy, float64(1000+100*i), 2048
		b.Add(r)
	}
	check(t, &b, 30, exposition.Account{
		GPU: "GPU-1", Instance: gpu.NoInstance, User: train,
		Allocated: 30, SM: 5 + 0 + 2.5, Idle: 10, Known: true, Busy: 0.25, Joules: 300, Metered: true, Memory: 2048,
	})
}

func TestContainersThatShare(t *testing.T) {
	var b account.Book
	a, c := train, serve
	a.Replica, c.Replica = "0", "1"
	for i := range 4 {
		r := at(10*i, a, c)
		r.Busy, r.Joules, r.Memory = 0.9, float64(100*i), 4096
		r.Processes = []account.Process{
			{PID: 1, User: train, SMSeconds: float64(6 * min(i, 2)), Memory: 1000},
			{PID: 2, User: train, Memory: 24},
			{PID: 3, User: serve, SMSeconds: float64(2 * min(i, 2)), Memory: 512},
		}
		b.Add(r)
	}
	// In the last ten seconds nobody did anything: each pays half of the energy.
	check(t, &b, 30,
		exposition.Account{GPU: "GPU-1", Instance: gpu.NoInstance, User: serve, Allocated: 30, SM: 4, Idle: 10, Known: true, Metered: true, Joules: 25 + 25 + 50, Memory: 512},
		exposition.Account{GPU: "GPU-1", Instance: gpu.NoInstance, User: train, Allocated: 30, SM: 12, Idle: 10, Known: true, Metered: true, Joules: 75 + 75 + 50, Memory: 1024})
}

// Nothing is invented for containers that share a device whose processes are not known.
func TestSharedWithoutProcesses(t *testing.T) {
	var b account.Book
	for i := range 3 {
		r := at(10*i, train, serve)
		r.Busy, r.Joules, r.Memory = 0.9, float64(100*i), 4096
		b.Add(r)
	}
	check(t, &b, 20,
		exposition.Account{GPU: "GPU-1", Instance: gpu.NoInstance, User: serve, Allocated: 20, Busy: -1, Memory: -1},
		exposition.Account{GPU: "GPU-1", Instance: gpu.NoInstance, User: train, Allocated: 20, Busy: -1, Memory: -1})
}

func TestTimesThatDoNotCount(t *testing.T) {
	var b account.Book
	b.Add(at(0))
	b.Add(at(10, train)) // came in between
	b.Add(at(10, train)) // the same moment
	b.Add(at(5, train))  // the clock was set back
	b.Add(at(1000, train))
	check(t, &b, 1000, exposition.Account{GPU: "GPU-1", Instance: gpu.NoInstance, User: train, Busy: -1, Memory: -1})
	b.Add(at(1010, train))
	check(t, &b, 1010, exposition.Account{GPU: "GPU-1", Instance: gpu.NoInstance, User: train, Allocated: 10, Busy: -1, Memory: -1})
	// The driver was loaded again: its energy counter is smaller.
	r := at(1020, train)
	r.Joules = 100
	b.Add(r)
	r = at(1030, train)
	r.Joules = 1
	b.Add(r)
	check(t, &b, 1030, exposition.Account{GPU: "GPU-1", Instance: gpu.NoInstance, User: train, Allocated: 30, Busy: -1, Memory: -1})
}

func TestAContainerThatLeaves(t *testing.T) {
	var b account.Book
	b.Add(at(0, train))
	b.Add(at(10, train))
	b.Add(at(20))
	want := exposition.Account{GPU: "GPU-1", Instance: gpu.NoInstance, User: train, Allocated: 10, Busy: -1, Memory: -1}
	check(t, &b, 100, want)
	check(t, &b, 141)
	b.Add(at(150, train))
	want.Allocated = 0
	check(t, &b, 150, want)
	b.Retain(func(account.Device) bool { return false })
	check(t, &b, 150)
}
