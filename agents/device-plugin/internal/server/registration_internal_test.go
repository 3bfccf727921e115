package server

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/pace"
)

// registered returns a registration that a kubelet has just accepted, and the socket of
// that kubelet.
func registered(t *testing.T) (*registration, os.FileInfo) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubelet.sock")
	assert.NilError(t, os.WriteFile(path, nil, 0o600))
	kubelet, err := os.Lstat(path)
	assert.NilError(t, err)
	r := newRegistration(func() {}, func() {})
	if wait := r.timeToRegister(kubelet); wait != 0 {
		t.Fatalf("timeToRegister() = %v before the first registration, want 0", wait)
	}
	if grace := r.setRegistered(kubelet, time.Now()); grace != listGrace {
		t.Fatalf("setRegistered() = %v, want %v", grace, listGrace)
	}
	return r, kubelet
}

func TestARegistrationIsRepeatedUntilAStreamOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, kubelet := registered(t)
		for _, grace := range []time.Duration{listGrace, 2 * listGrace, 4 * listGrace, 8 * listGrace, listGraceMax, listGraceMax} {
			if wait := r.timeToRegister(kubelet); wait != grace || !r.currentStatus().Registered {
				t.Fatalf("timeToRegister() = %v, status %+v after the kubelet accepted; want %v and registered", wait, r.currentStatus(), grace)
			}
			pace.Pause(t.Context(), grace)
			if wait := r.timeToRegister(kubelet); wait != 0 || r.currentStatus().Registered {
				t.Fatalf("timeToRegister() = %v, status %+v after %v without a stream; want 0 and not registered", wait, r.currentStatus(), grace)
			}
			r.setRegistered(kubelet, time.Now())
		}
	})
}

func TestAKubeletThatHoldsAStreamIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, kubelet := registered(t)
		s := r.open()
		r.recordSent(s, 1)
		pace.Pause(t.Context(), 24*time.Hour)
		if wait := r.timeToRegister(kubelet); wait != Recheck {
			t.Errorf("timeToRegister() = %v with an open stream, want %v", wait, Recheck)
		}
		r.close(s)
		if wait := r.timeToRegister(kubelet); wait != endGrace {
			t.Errorf("timeToRegister() = %v after the stream ended, want %v", wait, endGrace)
		}
		if r.currentStatus().Listed {
			t.Error("listed without a stream")
		}
		pace.Pause(t.Context(), endGrace)
		if wait := r.timeToRegister(kubelet); wait != 0 {
			t.Errorf("timeToRegister() = %v after the kubelet cleaned up, want 0", wait)
		}
	})
}

func TestLeaveEndsAtItsDeadlineAtTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := registered(t)
		r.withdraw()
		if !r.cancelWithdrawal() {
			t.Fatal("no way back from a leave that nobody has seen")
		}
		r.withdraw()
		r.recordSent(r.open(), 1) // an older list
		if wait, leaves := r.checkWithdrawal(2); !leaves || wait != receiveGrace {
			t.Errorf("checkWithdrawal() = %v, %v; want %v", wait, leaves, receiveGrace)
		}
		pace.Pause(t.Context(), receiveGrace)
		if wait, leaves := r.checkWithdrawal(2); !leaves || wait > 0 {
			t.Errorf("checkWithdrawal() = %v, %v at the deadline; want the end", wait, leaves)
		}
		if r.cancelWithdrawal() || r.isAdvertising() {
			t.Error("there is a way back from gone")
		}
	})
}
