package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/systemdtest"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// migUnit is the unit for hosts without Kubernetes.
const migUnit = "nvidia-mig-manager.service"

// host is a simulated node without Kubernetes, whose first process is systemd.
type host struct {
	*systemdtest.Host
	node *simtest.Node
	t    *testing.T
	// conf is /etc/nvidia-mig-manager.
	conf string
	// more is a command of the shell before the boot.
	more string
}

// newHost returns a host on which what packaging has is installed, as docs/mig-manager.md says.
func newHost(t *testing.T, model string) *host {
	t.Helper()
	n := simtest.New(t, "--model="+model, "--gpus=1")
	h := &host{systemdtest.New(t, filepath.Join(n.Bin, "gpu-sim"), "exec", "--root="+n.Root, "--"), n, t, t.TempDir(), ""}
	for _, unit := range []string{migUnit, "nvidia-gpu-reset.target"} {
		text, err := os.ReadFile("packaging/" + unit)
		assert.NilError(t, err)
		h.Unit(unit, string(text))
	}
	h.program(migUnit)
	// One that comes before, and two that need the MIG devices: by the order that the unit has, and
	// by the target that NVIDIA's units name.
	h.Unit("nvidia-persistenced.service", h.prints("before"))
	h.Unit("crio.service", h.prints("after"))
	h.Unit("own.service", "[Unit]\nWants=nvidia-gpu-reset.target\nAfter=nvidia-gpu-reset.target\n"+h.prints("target"))
	for _, unit := range []string{"nvidia-persistenced.service", "crio.service", "own.service"} {
		h.program(unit)
	}
	return h
}

// program makes this test the program of the service.
func (h *host) program(unit string) {
	h.Unit(unit+".d/test.conf", "[Service]\nEnvironment=AGENTTEST_AS_MAIN=1\n")
}

// prints is a service that notes which MIG devices it sees.
func (h *host) prints(as string) string {
	return "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c '/usr/bin/nvidia-mig-parted export >/run/" + as + "'\n[Install]\nWantedBy=multi-user.target\n"
}

// set writes the drop-in that NVIDIA's package has, too, with these variables.
func (h *host) set(variables ...string) {
	text := "[Service]\n"
	for _, v := range variables {
		text += "Environment=\"" + v + "\"\n"
	}
	h.Unit(migUnit+".d/override.conf", text)
}

func (h *host) boot() {
	h.t.Helper()
	h.Boot(strings.Join([]string{
		filepath.Join(h.node.Bin, "gpu-sim") + " mount --root=" + h.node.Root,
		"ln -sf " + os.Args[0] + " /usr/bin/nvidia-mig-parted",
		"mkdir -p /etc/nvidia-mig-manager",
		"mount --bind " + h.conf + " /etc/nvidia-mig-manager",
		h.more,
		"systemctl enable --quiet " + migUnit + " nvidia-persistenced.service crio.service own.service",
	}, "\n"))
}

// reboot ends the host, as a power failure does, and boots it again.
func (h *host) reboot() {
	h.t.Helper()
	h.End()
	h.node.Run("reboot")
	h.boot()
}

// saw checks what services have seen.
func (h *host) saw(want string, services ...string) {
	h.t.Helper()
	for _, s := range services {
		got, err := os.ReadFile(filepath.Join(h.Root(), "run", s))
		if err != nil || string(got) != want {
			h.t.Errorf("%s saw, %v:\n%swant\n%s%s", s, err, got, want, h.Log(migUnit))
		}
	}
}

// applied checks that the unit has made its change, without a warning.
func (h *host) applied() {
	h.t.Helper()
	h.state("active", "success")
	if log := h.Log(migUnit); !strings.HasSuffix(log, "\n"+applied) || strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		h.t.Errorf("the unit says\n%s", log)
	}
}

// state checks the state of the unit.
func (h *host) state(state, result string) {
	h.t.Helper()
	got := h.Must("systemctl", "show", "--property=ActiveState,Result", "--value", migUnit)
	if got = strings.Join(strings.Fields(got), " "); got != state+" "+result && got != result+" "+state {
		h.t.Errorf("the unit is %s, want %s %s\n%s", got, state, result, h.Log(migUnit))
	}
}

// is checks the state of the unit, and how many lines it printed.
func (h *host) is(state, result string, lines int) {
	h.t.Helper()
	h.state(state, result)
	if n := strings.Count(h.Log(migUnit), "\n"); n != lines {
		h.t.Errorf("%d lines, want %d:\n%s", n, lines, h.Log(migUnit))
	}
}

// TestLayoutsOfABoot has a GPU that loses its layout and mode at a reboot, and one that keeps the
// mode and changes it with a reset.
func TestLayoutsOfABoot(t *testing.T) {
	for model, tc := range map[string]struct{ before, after string }{
		"h100-80": {exported(), exported("1g.10gb: 2", "2g.20gb: 1", "3g.40gb: 1")},
		"a30":     {"version: v1\nmig-configs:\n  current:\n    - devices: all\n      mig-enabled: true\n      mig-devices: {}\n", exported("1g.6gb: 2", "2g.12gb: 1")},
	} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, model)
			h.set("MIG_PARTED_SELECTED_CONFIG=all-balanced")
			h.boot()
			h.saw(exported(), "before")
			h.saw(tc.after, "after", "target")
			h.reboot()
			h.saw(tc.before, "before")
			h.saw(tc.after, "after", "target")
			h.applied()

			h.set("MIG_PARTED_SELECTED_CONFIG=all-disabled")
			h.Must("systemctl", "daemon-reload")
			h.Must("systemctl", "restart", migUnit)
			if list := string(h.node.Run("mig list")); strings.Contains(list, "MIG-") {
				t.Errorf("restart has left\n%s", list)
			}
		})
	}
}

// TestGPUThatCannotBeReset has one as in most virtual machines: its mode changes with a reboot.
func TestGPUThatCannotBeReset(t *testing.T) {
	h := newHost(t, "a30")
	h.set("MIG_PARTED_SELECTED_CONFIG=all-balanced")
	h.more = "ln -sf /bin/false /usr/bin/nvidia-smi"
	h.boot()
	h.state("failed", "exit-code")
	if log := h.Log(migUnit); !strings.Contains(log, "needs a reboot of the node to change its MIG mode: reset GPUs with nvidia-smi -r -i ") {
		t.Errorf("the unit says\n%s", log)
	}
	h.saw(exported(), "after", "target")
	h.reboot()
	h.applied()
	h.saw(exported("1g.6gb: 2", "2g.12gb: 1"), "after", "target")
}

// TestBootGoesOn has what keeps the unit from its work. Each failure is one line.
func TestBootGoesOn(t *testing.T) {
	h := newHost(t, "h100-80")
	h.set()
	h.boot()
	h.is("inactive", "exec-condition", 0)
	h.saw(exported(), "after", "target")
	h.set("MIG_PARTED_SELECTED_CONFIG=nope")
	h.reboot()
	h.failed(`selected mig-config not present: "nope": must be all-1g.10gb, `)
	h.saw(exported(), "after", "target")

	for _, tc := range []struct{ hooks, config, want string }{
		{"", "{devices: all, mig-enabled: maybe}", "/etc/nvidia-mig-manager/config.yaml:2: mig-configs.a[0].mig-enabled: "},
		{"", "{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 2}}", "fit 2 × 7g.80gb on one GPU"},
		{"/none", "{devices: all, mig-enabled: false}", "flag --hooks-file (environment variable MIG_PARTED_HOOKS_FILE): lstat /none: no such file or directory"},
	} {
		text := "version: v1\nmig-configs: {a: [" + tc.config + "]}\n"
		assert.NilError(t, os.WriteFile(filepath.Join(h.conf, "config.yaml"), []byte(text), 0o600))
		h.set("MIG_PARTED_SELECTED_CONFIG=a", "MIG_PARTED_HOOKS_FILE="+tc.hooks)
		h.again()
		h.failed(tc.want)
	}
	h.node.Run("set", "driver=off")
	h.set("MIG_PARTED_SELECTED_CONFIG=a")
	h.again()
	h.failed("the kernel module nvidia is not loaded")
}

// again starts the unit again, which fails.
func (h *host) again() {
	h.t.Helper()
	assert.NilError(h.t, os.Remove(filepath.Join(h.Root(), "run/log-"+migUnit)))
	h.Must("systemctl", "daemon-reload")
	if out, err := h.Run("systemctl", "restart", migUnit); err == nil {
		h.t.Errorf("the unit did not fail: %s\n%s", out, h.Log(migUnit))
	}
}

// failed checks that the unit has failed, and says so in one line.
func (h *host) failed(why string) {
	h.t.Helper()
	h.is("failed", "exit-code", 1)
	if log := h.Log(migUnit); !strings.Contains(log, why) || !strings.HasPrefix(log, "nvidia-mig-parted: ") {
		h.t.Errorf("the unit says\n%swant\n%s", log, why)
	}
}

// TestHooksOfAHost applies a config by hand, with the hooks of packaging: it is kept for the next
// boot, and a unit that uses GPUs is stopped and started again.
func TestHooksOfAHost(t *testing.T) {
	h := newHost(t, "h100-80")
	text, err := os.ReadFile("packaging/hooks.yaml")
	assert.NilError(t, err)
	assert.NilError(t, os.WriteFile(filepath.Join(h.conf, "hooks.yaml"), text, 0o600))
	const dcgm = "nvidia-dcgm.service"
	h.Unit(dcgm, "[Unit]\nWants=nvidia-gpu-reset.target\nAfter=nvidia-gpu-reset.target\n[Service]\nExecStart=/bin/sleep 1000\nExecStartPre=/bin/sh -c 'echo start >>/run/dcgm'\nExecStopPost=/bin/sh -c 'echo stop >>/run/dcgm'\n"+
		"[Install]\nWantedBy=multi-user.target\n")
	h.set("MIG_PARTED_SELECTED_CONFIG=all-disabled", "MIG_PARTED_HOOKS_FILE=/etc/nvidia-mig-manager/hooks.yaml")
	h.boot()
	h.Must("systemctl", "start", dcgm)
	h.saw("start\n", "dcgm")

	apply := []string{"env", "AGENTTEST_AS_MAIN=1", "MIG_PARTED_HOOKS_FILE=/etc/nvidia-mig-manager/hooks.yaml", "nvidia-mig-parted", "apply", "-f", "/etc/nvidia-mig-manager/config.yaml", "-c"}
	h.Must(append(apply, "all-balanced")...)
	agenttest.Poll(t, "DCGM to run again", func() bool { return h.State(dcgm) == "active" })
	h.saw("start\nstop\nstart\n", "dcgm")
	// A failure, and no change: nothing is stopped without a change, and nothing stays stopped.
	if out, err := h.Run(append(apply, "nope")...); err == nil {
		t.Errorf("a config that is not there was applied: %s", out)
	}
	h.Must(append(apply, "all-balanced")...)
	h.saw("start\nstop\nstart\n", "dcgm")
	// An apply that was killed has left this behind.
	h.Must("sh", "-c", "systemctl stop "+dcgm+"; echo "+dcgm+" >/run/nvidia-mig-manager/stopped")
	h.Must(append(apply, "all-balanced")...)
	agenttest.Poll(t, "DCGM to run again", func() bool { return h.State(dcgm) == "active" })

	h.reboot()
	h.saw(exported("1g.10gb: 2", "2g.20gb: 1", "3g.40gb: 1"), "after", "target")
	if got := h.Must("systemctl", "show", "--property=Environment", "--value", migUnit); !strings.Contains(got, "MIG_PARTED_HOOKS_FILE=/etc/nvidia-mig-manager/hooks.yaml MIG_PARTED_SELECTED_CONFIG=all-balanced") {
		t.Errorf("the variables of the unit are %s", got)
	}
	if got := h.State(migUnit); got != "active" {
		t.Errorf("the unit is %s:\n%s", got, h.Log(migUnit))
	}
}
