package main

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/contract"
)

// TestCommandsWaitForTheClaimOfAnotherProgram runs each command that uses NVML while another program
// has claimed the lease.
func TestCommandsWaitForTheClaimOfAnotherProgram(t *testing.T) {
	r := newRig(t, "h100-80", 1)
	r.prints(applied, "apply", "-f", defaults, "-c", "all-balanced")
	saved := filepath.Join(t.TempDir(), "saved.json")
	r.prints("MIG configuration checkpointed successfully\n", "checkpoint", "-f", saved)
	lease := contract.Dir{Root: r.run}.NVML()
	for name, args := range map[string][]string{
		"apply":           {"apply", "-f", defaults, "-c", "all-1g.10gb"},
		"apply, in force": {"apply", "-f", defaults, "-c", "all-balanced"},
		"assert":          {"assert", "-f", defaults, "-c", "all-balanced"},
		"assert detailed": {"assert", "-f", defaults, "-c", "all-balanced", "--exit-codes=detailed"},
		"checkpoint":      {"checkpoint", "-f", "-"},
		"export":          {"export"},
		"generate":        {"generate"},
		"plan":            {"plan", "-f", defaults, "-c", "all-balanced"},
		"restore":         {"restore", "-f", saved},
		"snapshot":        {"snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			r := r
			r.t = t
			r.prints(restored, "restore", "-f", saved)
			grant, err := lease.Claim(t.Context(), "mig-manager", "change of MIG layouts", time.Minute)
			assert.NilError(t, err)
			defer grant.Release()
			const claimed = "lease is claimed by mig-manager (change of MIG layouts)"
			r.fails(3, claimed, append(args, "--lease-timeout=0s")...)
			r.fails(3, "waited 1ms for the exclusive use of NVML by another program to end: ", append(args, "--lease-timeout=1ms")...)

			cmd := agenttest.Command(t, r.Node, append(args, "--run-root", r.run, "--state-dir", r.state)...)
			pipe, err := cmd.StderrPipe()
			assert.NilError(t, err)
			assert.NilError(t, cmd.Start())
			log := bufio.NewReader(pipe)
			first, err := log.ReadString('\n')
			if err != nil || !strings.Contains(first, "waiting") || !strings.Contains(first, claimed) {
				t.Errorf("the log begins with %q, %v", first, err)
			}
			assert.NilError(t, grant.Release())
			rest, _ := io.ReadAll(log)
			assert.NilError(t, cmd.Wait(), "after the claim\n%s", rest)
		})
	}
}
