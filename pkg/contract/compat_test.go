package contract_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/contract"
)

// writeOld writes a held file as an earlier version does, and returns it locked.
func writeOld(t *testing.T, path string) *os.File {
	t.Helper()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(t, err)
	text := "OUTRIGGER_BOOT_ID=" + strings.TrimSpace(string(boot)) +
		"\nOUTRIGGER_HELD=true\nOUTRIGGER_TIME=2026-11-21T10:00:00Z\nOUTRIGGER_WRITER=old-plugin\n"
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o600))
	f, err := os.Open(path)
	must(t, err)
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return f
}

// TestEarlierVersions: agents of both versions run beside each other during an update. A
// held file of an earlier version has a flock and no key OUTRIGGER_LOCK.
func TestEarlierVersions(t *testing.T) {
	d := newDir(t)
	t.Run("their facts and claims", func(t *testing.T) {
		fact := writeOld(t, d.Path(contract.PluginReady))
		offer := writeOld(t, filepath.Join(d.Root, "leases", "offer."+claimedGPU))
		if f := d.Read(contract.PluginReady); f.State != contract.Valid {
			t.Errorf("the fact of a living writer is %s: %s", f.State, f.Reason)
		}
		claims := d.NewClaims("dra-plugin")
		if err := claims.Claim([]string{claimedGPU})[claimedGPU]; err == nil || !strings.Contains(err.Error(), "advertised by old-plugin") {
			t.Errorf("Claim() = %v, want that old-plugin has the GPU", err)
		}
		must(t, fact.Close())
		must(t, offer.Close())
		if f := d.Read(contract.PluginReady); f.State != contract.WriterDead {
			t.Errorf("the fact of a dead writer is %s", f.State)
		}
		claim(t, claims, claimedGPU)
		claims.Release()
	})
	t.Run("their readers", func(t *testing.T) {
		held, err := d.Hold(contract.PluginReady, contract.Record{Writer: "device-plugin"})
		must(t, err)
		f, err := os.Open(d.Path(contract.PluginReady))
		must(t, err)
		defer f.Close()
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == nil {
			t.Error("a held file has no flock, and seems dead to earlier versions")
		}
		must(t, held.Release())
	})
	t.Run("their user of NVML", func(t *testing.T) {
		share, err := d.NVML().Share()
		must(t, err)
		must(t, share.Release())
		f, err := os.Open(d.NVML().Path())
		must(t, err)
		defer f.Close()
		must(t, unix.Flock(int(f.Fd()), unix.LOCK_SH))
		owner, out := launch(t, "claim", d)
		_, err = contract.WaitClaimed(t.Context(), d.NVML())
		must(t, err)
		must(t, f.Close())
		line := make([]byte, 6)
		if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
			t.Errorf("the claimer says %q, %v, after the user has ended", line, err)
		}
		owner.quit()
	})
}
