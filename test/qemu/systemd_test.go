//go:build e2e

package qemu_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
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
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	m := machine(t)
	// The harder case: the programs that systemd and runc attach look different then.
	m.Options = []string{"sysctl.net.core.bpf_jit_harden=2"}
	addNode(t, &m)
	addSystemd(t, &m)
	addToolkit(t, &m)
	addProgram(t, &m, "/usr/bin/crun", "/usr/bin/crun")
	m.Files["/usr/bin/containers"] = read(t, build(t, ".", "build", "./internal/containers"))
	code, out, err := m.Run(ctx, "/usr/bin/containers")
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
	everywhere := []string{"started: " + gpu1, "after daemon-reload: " + gpu1, "after another daemon-reload: " + gpu1}
	updated, control := "after update: "+gpu1, "after the unit was denied every device: "+denied
	for name, more := range map[string][]string{
		"prestart": {updated, control}, "prestart-crun": {updated}, "legacy": {updated, control}, "cdi": {updated, control}, "cdi-cgroupfs": nil,
	} {
		_, got, _ := strings.Cut(out, "\ncontainer "+name+"\n")
		got, _, _ = strings.Cut(got, "\ncontainer ")
		want := slices.Concat(everywhere, more)
		for _, line := range want {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("the container %s lacks %q:\n%s", name, line, got)
			}
		}
	}
}

// units returns the unit that runs the program of the guest, below systemd, and those of
// the message bus, which crun needs.
func units() map[string]string {
	return map[string]string{
		"/guest/guest.service": `[Unit]
DefaultDependencies=no
Requires=dbus.service
After=dbus.service
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
ExecStart=/init
StandardOutput=file:/dev/ttyS0
StandardError=inherit
`,
		"/etc/systemd/system/dbus.socket": `[Unit]
DefaultDependencies=no
[Socket]
ListenStream=/run/dbus/system_bus_socket
`,
		"/etc/systemd/system/dbus.service": `[Unit]
DefaultDependencies=no
Requires=dbus.socket
[Service]
ExecStart=/usr/bin/dbus-daemon --config-file=/guest/dbus.conf --nofork --nopidfile
StandardOutput=file:/dev/ttyS0
StandardError=inherit
`,
		"/guest/dbus.conf": `<busconfig>
<type>system</type>
<listen>systemd:</listen>
<auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/></policy>
</busconfig>
`,
	}
}

// addSystemd makes systemd the guest's first process. It is the one of this machine.
func addSystemd(t *testing.T, m *qemu.Machine) {
	t.Helper()
	for file, text := range units() {
		m.Files[file] = []byte(text)
	}
	for _, program := range []string{"/usr/lib/systemd/systemd", "/usr/lib/systemd/systemd-executor", "/usr/bin/systemctl", "/usr/bin/dbus-daemon"} {
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
