package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"outrigger.dev/pkg/hostfs"
)

// rebootNote is the content of Config.RebootFile: a change that only a reboot completes. A process
// that starts in the same boot waits for the reboot, and does not change the GPUs.
type rebootNote struct {
	Config string `json:"config"`
	BootID string `json:"bootID"`
	// Of is a hash of the change, and Cause the error of its attempt.
	Of    string `json:"of,omitempty"`
	Cause string `json:"cause,omitempty"`
	// Since is the time of the request to reboot, as time since the boot. If ByHand is set, the
	// host was not told, and Since is the time of the attempt.
	Since  time.Duration `json:"since,omitempty"`
	ByHand bool          `json:"byHand,omitempty"`
	// Rebooted is set if the host has already rebooted for the config, without success.
	Rebooted bool `json:"rebooted,omitempty"`
}

// maxNote is the largest size of Config.RebootFile, in bytes.
const maxNote = 1 << 16

// loadRebootNote completes the attempt with the note in Config.RebootFile, even if an earlier process
// wrote it. A note that cannot be read counts as a reboot, so that the host is not rebooted again and
// again.
func (m *Manager) loadRebootNote() {
	t := &m.attempt
	t.Rebooting, t.Overdue, t.Rebooted = false, false, false
	n, err := m.readNote()
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	boot, errBoot := m.cfg.Contract.BootID()
	same := errBoot == nil && n.BootID == boot
	t.Rebooted = err != nil || n.Config == m.wanted && (n.Rebooted || !same && !n.ByHand)
	if err != nil || !same || n.Config != m.wanted || n.Of != "" && n.Of != t.change {
		return
	}
	since := max(0, m.boottime()-n.Since)
	t.Rebooting, t.Overdue = !n.ByHand && since < rebootLimit, !n.ByHand && since >= rebootLimit
	if t.Err == nil {
		t.Err, t.Reboot = errNeedsReboot, true
		if n.Cause != "" {
			t.Err = errors.New(n.Cause)
		}
		t.until = m.now().Add(m.cfg.Options.RebootPause - since)
	}
}

// waitsForReboot reports whether the desired config was attempted in this boot and takes effect after
// a reboot.
func (m *Manager) waitsForReboot() bool {
	n, err := m.readNote()
	boot, errBoot := m.cfg.Contract.BootID()
	return err == nil && errBoot == nil && n.BootID == boot && n.Config == m.wanted
}

func (m *Manager) readNote() (rebootNote, error) {
	return hostfs.ReadJSON[rebootNote](m.cfg.RebootFile, maxNote)
}

// needsReboot records a change that only a reboot completes. The host was not told to reboot.
func (m *Manager) needsReboot() {
	t := &m.attempt
	t.until = m.now().Add(m.cfg.Options.RebootPause)
	if err := m.noteReboot(true); err != nil {
		m.cfg.Log.Error("cannot record that the host must reboot; after a restart, the agent tries the change again", "file", m.cfg.RebootFile, "err", err)
	}
}

// reboot reboots the host, after it has recorded the config in Config.RebootFile.
func (m *Manager) reboot(ctx context.Context) time.Duration {
	t := &m.attempt
	err := m.noteReboot(false)
	if err == nil {
		m.cfg.Log.Warn("rebooting the host", "config", m.wanted, "cause", t.Err)
		err = m.cfg.Reboot(ctx)
	}
	if err != nil {
		m.cfg.Log.Error("cannot reboot the host", "err", err)
		t.Refused = errors.Join(err, m.noteReboot(true))
		t.until = m.now().Add(t.retry.Next())
		m.loop.Wake()
		return 0
	}
	t.Refused, t.Rebooting = nil, true
	t.until = m.now().Add(m.cfg.Options.RebootPause)
	return retryLacking
}

func (m *Manager) noteReboot(byHand bool) error {
	boot, err := m.cfg.Contract.BootID()
	if err != nil {
		return err
	}
	t := &m.attempt
	err = hostfs.WriteJSON(m.cfg.RebootFile, rebootNote{
		Config: m.wanted, BootID: boot, Of: t.change, Cause: t.Err.Error(), Since: m.boottime(), ByHand: byHand, Rebooted: t.Rebooted,
	}, 0o644)
	if err != nil {
		return fmt.Errorf("record the reboot of the host: %w", err)
	}
	return nil
}

// forgetReboot removes Config.RebootFile.
func (m *Manager) forgetReboot() {
	if err := os.Remove(m.cfg.RebootFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		m.cfg.Log.Error("cannot remove the record of a reboot", "file", m.cfg.RebootFile, "err", err)
	}
}
