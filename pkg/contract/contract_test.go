package contract_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outrigger.dev/pkg/contract"
)

var driverValues = map[string]string{
	contract.KeyIsHostDriver:      "true",
	contract.KeyDriverRoot:        "/",
	contract.KeyDriverRootCtrPath: "/host",
	contract.KeyDevRoot:           "/",
	contract.KeyDevRootCtrPath:    "/host",
}

func TestWriteAndRead(t *testing.T) {
	d := newDir(t)
	before := time.Now().Add(-time.Second)
	must(t, d.Write(contract.DriverReady, contract.Record{
		Writer: "driver-loader", DriverVersion: "580.95.05", Values: driverValues,
	}))
	got := d.Read(contract.DriverReady)
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	must(t, err)
	want := contract.Fact{
		State: contract.Valid,
		Stamp: contract.Stamp{
			BootID: string(bytes.TrimSpace(boot)), Writer: "driver-loader", DriverVersion: "580.95.05",
		},
		Values: driverValues,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(contract.Stamp{}, "Time")); diff != "" {
		t.Errorf("fact (-want +got):\n%s", diff)
	}
	if got.Stamp.Time.Before(before) || got.Stamp.Time.After(time.Now()) {
		t.Errorf("time of the stamp: want now, got %s", got.Stamp.Time)
	}
	must(t, d.Remove(contract.DriverReady))
	must(t, d.Remove(contract.DriverReady))
	if got := d.Read(contract.DriverReady).State; got != contract.Missing {
		t.Errorf("after Remove: want missing, got %s", got)
	}
}

// TestShellsSourceTheFile: NVIDIA's start scripts do.
func TestShellsSourceTheFile(t *testing.T) {
	d := newDir(t)
	values := map[string]string{"PLAIN": "/run/nvidia/driver", "ODD": `it's $HOME; "x" \ #`, "EMPTY": ""}
	must(t, d.Write(contract.ToolkitReady, contract.Record{Writer: "container-toolkit", Values: values}))
	out, err := exec.CommandContext(t.Context(), "sh", "-eu", "-c", //nolint:gosec // a test's own path
		`. "$1"; printf '%s\n' "$PLAIN" "$ODD" "[$EMPTY]" "$OUTRIGGER_WRITER"`, "sh", d.Path(contract.ToolkitReady)).Output()
	must(t, err)
	want := "/run/nvidia/driver\n" + values["ODD"] + "\n[]\ncontainer-toolkit\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("what sh reads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(values, d.Read(contract.ToolkitReady).Values); diff != "" {
		t.Errorf("what Read reads (-want +got):\n%s", diff)
	}
}

func TestRead(t *testing.T) {
	stamp := "OUTRIGGER_BOOT_ID=this\nOUTRIGGER_WRITER=driver-loader\nOUTRIGGER_TIME=2026-11-21T10:00:00Z\n"
	cases := map[string]struct {
		file   string
		boot   string
		driver string
		want   contract.State
		reason string
	}{
		"NVIDIA's own file has no stamp and is believed": {
			file: "IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\n", want: contract.Valid,
		},
		"a file of this boot": {file: stamp, want: contract.Valid},
		"a file of another boot": {
			file: stamp, boot: "other", want: contract.Stale, reason: "written by driver-loader before the last boot",
		},
		"the boot id cannot be read": {
			file: stamp, boot: "-", want: contract.Unreadable, reason: "read boot id",
		},
		"the boot id is empty": {
			file: stamp, boot: "\n", want: contract.Unreadable, reason: "is empty",
		},
		"the kernel runs the driver that was reported": {
			file: stamp + "OUTRIGGER_DRIVER_VERSION=580.95.05\n", want: contract.Valid,
			driver: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n",
		},
		"the kernel runs another driver": {
			file: stamp + "OUTRIGGER_DRIVER_VERSION=580.95.05\n", want: contract.Stale,
			driver: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.10  Tue Sep 23\n",
			reason: "reported driver 580.95.05, but the kernel runs 570.10",
		},
		"the kernel has no driver": {
			file: stamp + "OUTRIGGER_DRIVER_VERSION=580.95.05\n", want: contract.Stale, reason: "but the kernel has none",
		},
		"the writer of a held file has ended": {
			file: stamp + "OUTRIGGER_HELD=true\n", want: contract.WriterDead, reason: "driver-loader, which has ended",
		},
		"an empty file, as older validators leave": {file: "", want: contract.Valid},
		"a file that is no contract file":          {file: "hello world\n", want: contract.Unreadable, reason: "line 1 is not KEY=value"},
		"a file that is much too large":            {file: strings.Repeat("#", 65<<10), want: contract.Unreadable, reason: "more than"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			d := contract.Dir{Root: root, ProcRoot: root, BootIDFile: filepath.Join(root, "boot_id")}
			must(t, os.MkdirAll(filepath.Join(root, "validations"), 0o755))
			must(t, os.MkdirAll(filepath.Join(root, "driver/nvidia"), 0o755))
			must(t, os.WriteFile(d.Path(contract.DriverReady), []byte(tc.file), 0o600))
			if tc.boot == "" {
				tc.boot = "this\n"
			}
			if tc.boot != "-" {
				must(t, os.WriteFile(d.BootIDFile, []byte(tc.boot), 0o600))
			}
			if tc.driver != "" {
				must(t, os.WriteFile(filepath.Join(root, "driver/nvidia/version"), []byte(tc.driver), 0o600))
			}
			got := d.Read(contract.DriverReady)
			if got.State != tc.want || !strings.Contains(got.Reason, tc.reason) {
				t.Errorf("want %s with %q, got %s: %s", tc.want, tc.reason, got.State, got.Reason)
			}
			if got.State == contract.Valid && got.Reason != "" {
				t.Errorf("a valid fact has no reason, got %q", got.Reason)
			}
		})
	}
}

func TestReadOddThings(t *testing.T) {
	d := contract.Dir{Root: filepath.Join(t.TempDir(), "none")}
	if got := d.Read(contract.PluginReady); got.State != contract.Missing || !strings.Contains(got.Reason, "run root "+d.Root) {
		t.Errorf("without run root: got %+v", got)
	}
	must(t, os.MkdirAll(d.Path(contract.PluginReady), 0o755))
	if got := d.Read(contract.PluginReady); got.State != contract.Unreadable {
		t.Errorf("a folder in the file's place: got %+v", got)
	}
	must(t, os.Remove(d.Path(contract.PluginReady)))
	must(t, os.Symlink("plugin-ready", d.Path(contract.PluginReady)))
	if got := d.Read(contract.PluginReady); got.State != contract.Unreadable {
		t.Errorf("a link to itself: got %+v", got)
	}
}

func TestWriteRejectsWhatShellsWouldMisread(t *testing.T) {
	d := newDir(t)
	for name, values := range map[string]map[string]string{
		"a value of two lines":  {"A": "x\ny"},
		"a key with a space":    {"A B": "x"},
		"a key with a digit":    {"1A": "x"},
		"no key":                {"": "x"},
		"a key of the stamp":    {"OUTRIGGER_WRITER": "x"},
		"a value with a 0 byte": {"A": "x\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			err := d.Write(contract.CUDAReady, contract.Record{Writer: "w", Values: values})
			if err == nil || d.Read(contract.CUDAReady).State != contract.Missing {
				t.Errorf("want an error and no file, got %v", err)
			}
		})
	}
}

func TestWriteWithoutRunRoot(t *testing.T) {
	d := contract.Dir{Root: filepath.Join(t.TempDir(), "none")}
	_, holdErr := d.HoldFile(d.Path(contract.PluginReady), contract.Record{Writer: "w"})
	_, shareErr := d.NVML().Share()
	_, claimErr := d.NVML().Claim(t.Context(), "w", "r", time.Second)
	for name, err := range map[string]error{
		"Write": d.Write(contract.PluginReady, contract.Record{Writer: "w"}),
		"Hold":  holdErr, "Share": shareErr, "Claim": claimErr,
	} {
		if !errors.Is(err, contract.ErrNoRunRoot) || !strings.Contains(err.Error(), d.Root) {
			t.Errorf("%s: want ErrNoRunRoot that names %s, got %v", name, d.Root, err)
		}
	}
	if _, err := os.Stat(d.Root); err == nil {
		t.Errorf("the run root must not be created: no other agent sees a folder that is not mounted")
	}
}

func TestWriteOnReadOnlyAndFullRunRoot(t *testing.T) {
	root := t.TempDir()
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("needs root to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(root, syscall.MNT_DETACH)) })
	d := contract.Dir{Root: root}
	must(t, d.Write(contract.ToolkitReady, contract.Record{Writer: "first"}))

	err := d.Write(contract.ToolkitReady, contract.Record{Writer: "second", Values: map[string]string{"A": strings.Repeat("x", 32<<10)}})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("want ENOSPC, got %v", err)
	}
	if got := d.Read(contract.ToolkitReady); got.State != contract.Valid || got.Stamp.Writer != "first" {
		t.Errorf("the old fact must stay, got %+v", got)
	}
	must(t, syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if err := d.Write(contract.ToolkitReady, contract.Record{Writer: "third"}); !errors.Is(err, contract.ErrNoRunRoot) {
		t.Errorf("want ErrNoRunRoot, got %v", err)
	}
	if got := d.Read(contract.ToolkitReady); got.State != contract.Valid {
		t.Errorf("reading works, got %+v", got)
	}
}
