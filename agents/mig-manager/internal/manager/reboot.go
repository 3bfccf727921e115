package manager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"outrigger.dev/pkg/hostfs"
)

// rebootNote is the content of Config.RebootFile: a change that only a reboot completes. A process that
// starts in the same boot waits for the reboot, and leaves the GPUs alone.
type rebootNote struct {
	Config string `json:"config"`
	BootID string `json:"bootID"`
	// Of names the change, by a hash, and Cause is the error of its attempt.
	Of    string `json:"of,omitempty"`
	Cause string `json:"cause,omitempty"`
	// Since is when the host was told to reboot, in time since the boot. With ByHand, nobody has told
	// it: then it is when the change was tried.
	Since  time.Duration `json:"since,omitempty"`
	ByHand bool          `json:"byHand,omitempty"`
	// Rebooted is set if the host has rebooted for the config before, in vain.
	Rebooted bool `json:"rebooted,omitempty"`
}

// maxNote bounds Config.RebootFile.
const maxNote = 1 << 16

// loadRebootNote completes the attempt by the note of it, also by one of a process before. What cannot be
// read counts as a reboot: one too few is better than one after the other.
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
	if err != nil || !same || n.Config != m.wanted || n.Of != "" && n.Of != t.changeHash() {
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

// waitsForReboot reports whether what is wanted was tried in this boot, and takes effect only after it.
func (m *Manager) waitsForReboot() bool {
	n, err := m.readNote()
	boot, errBoot := m.cfg.Contract.BootID()
	return err == nil && errBoot == nil && n.BootID == boot && n.Config == m.wanted
}

func (m *Manager) readNote() (rebootNote, error) {
	var n rebootNote
	data, err := hostfs.ReadFile(m.cfg.RebootFile, maxNote)
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	return n, err
}

// changeHash names the change of an attempt.
func (t *attempt) changeHash() string {
	sum := sha256.Sum256([]byte(t.change))
	return hex.EncodeToString(sum[:])
}

// needsReboot notes a change that only a reboot completes, which nobody has told the host yet.
func (m *Manager) needsReboot() {
	t := &m.attempt
	t.until = m.now().Add(m.cfg.Options.RebootPause)
	if err := m.noteReboot(true); err != nil {
		m.cfg.Log.Error("cannot note that the host has to reboot: an agent that starts again will try the change again", "file", m.cfg.RebootFile, "err", err)
	}
}

// reboot reboots the host, after it has noted for which config.
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
	data, err := json.Marshal(rebootNote{
		Config: m.wanted, BootID: boot, Of: t.changeHash(), Cause: t.Err.Error(), Since: m.boottime(), ByHand: byHand, Rebooted: t.Rebooted,
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.cfg.RebootFile), 0o755); err != nil {
		return fmt.Errorf("note that the host is rebooted: %w", err)
	}
	if err := hostfs.WriteFile(m.cfg.RebootFile, data, 0o644); err != nil {
		return fmt.Errorf("note that the host is rebooted: %w", err)
	}
	return nil
}

// forgetReboot removes the note.
func (m *Manager) forgetReboot() {
	if err := os.Remove(m.cfg.RebootFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		m.cfg.Log.Error("cannot remove the note of a reboot", "file", m.cfg.RebootFile, "err", err)
	}
}
