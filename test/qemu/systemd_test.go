//go:build e2e

package qemu_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outrigger.dev/test/qemu"
)

// TestContainersOfSystemd has containers whose cgroups systemd makes. It writes their
// devices again with each "systemctl daemon-reload".
func TestContainersOfSystemd(t *testing.T) {
	const (
		gpu1   = "/dev/nvidia0 missing, /dev/nvidia1 allowed, /dev/nvidiactl allowed, /dev/nvidia-uvm allowed, /made/nvidia0 EPERM, /made/nvidia1 allowed, /dev/null opened"
		denied = "/dev/nvidia0 missing, /dev/nvidia1 EPERM, /dev/nvidiactl EPERM, /dev/nvidia-uvm EPERM, /made/nvidia0 EPERM, /made/nvidia1 EPERM, /dev/null EPERM"
	)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	m := machine(t)
	// The harder case: the programs that systemd and runc attach look different then.
	m.Options = []string{"sysctl.net.core.bpf_jit_harden=2"}
	addNode(t, &m)
	addSystemd(t, &m)
	addToolkit(t, &m)
	m.Files["/usr/bin/containers"] = read(t, build(t, ".", "build", "./internal/containers"))
	code, out, err := m.Run(ctx, "/usr/bin/containers")
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
	for name, systemd := range map[string]bool{"prestart": true, "legacy": true, "cdi": true, "cdi-cgroupfs": false} {
		_, got, _ := strings.Cut(out, "\ncontainer "+name+"\n")
		got, _, _ = strings.Cut(got, "\ncontainer ")
		want := []string{"started: " + gpu1, "after daemon-reload: " + gpu1, "after another daemon-reload: " + gpu1}
		if systemd {
			want = append(want, "after update: "+gpu1, "after the unit was denied every device: "+denied)
		}
		for _, line := range want {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("the container %s lacks %q:\n%s", name, line, got)
			}
		}
	}
}

// unit runs the program of the guest, below systemd.
const unit = `[Unit]
DefaultDependencies=no
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
ExecStart=/init
StandardOutput=file:/dev/ttyS0
StandardError=inherit
`

// addSystemd makes systemd the guest's first process. It is the one of this machine.
func addSystemd(t *testing.T, m *qemu.Machine) {
	t.Helper()
	m.Files["/guest/guest.service"] = []byte(unit)
	for _, program := range []string{"/usr/lib/systemd/systemd", "/usr/lib/systemd/systemd-executor", "/usr/bin/systemctl"} {
		// Versions before 255 have no executor.
		if _, err := os.Stat(program); err != nil && filepath.Base(program) == "systemd-executor" {
			continue
		}
		addProgram(t, m, program, program)
	}
}

// addToolkit adds the tools of the container toolkit.
func addToolkit(t *testing.T, m *qemu.Machine) {
	t.Helper()
	for _, name := range []string{"nvidia-ctk", "toolkit-gpus", "nvidia-cdi-hook", "nvidia-container-cli", "nvidia-container-runtime", "nvidia-container-runtime-hook"} {
		addProgram(t, m, filepath.Join(os.Getenv("OUTRIGGER_BIN"), name), "/outrigger/bin/"+name)
	}
	for _, mode := range []string{"legacy", "cdi"} {
		m.Links["/outrigger/bin/nvidia-container-runtime."+mode] = "nvidia-container-runtime"
	}
}
