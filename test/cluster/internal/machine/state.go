// Package machine records what a cluster changes on the machine, and restores it. It
// writes the record to disk before a change, so that any process can remove the cluster
// after its creator died.
package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/test/cluster/internal/plan"
)

// The folders of the cluster. There is one cluster on a machine.
const (
	// StateDir disappears with a reboot of the machine, as the cluster does.
	StateDir = "/run/outrigger-cluster"
	// DataDir is on a disk, with room for images.
	DataDir = "/var/lib/outrigger-cluster"
	// Cgroup is the name of the cluster's cgroups.
	Cgroup = "outrigger-cluster"
)

// sysctls returns the sysctls of the machine that a kubelet sets.
func sysctls() []string {
	return []string{
		"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxbytes", "kernel/keys/root_maxkeys",
		"vm/overcommit_memory", "vm/panic_on_oom",
	}
}

// State is the recorded state of a cluster, in addition to its files.
type State struct {
	// Complete is set when the cluster is up.
	Complete bool       `json:"complete"`
	Shape    plan.Shape `json:"shape"`
	BinDir   string     `json:"binDir"`
	// Sysctls are the machine's values before the start.
	Sysctls map[string]string `json:"sysctls"`
	// Controllers are the controllers that the root cgroup enabled before the start.
	Controllers []string `json:"controllers"`
}

func stateFile() string { return filepath.Join(StateDir, "state.json") }

// Kubeconfig is the path of the administrator's kubeconfig.
func Kubeconfig() string { return filepath.Join(StateDir, "admin.kubeconfig") }

// Fabric is the path of the file that keeps the cluster's network alive.
func Fabric() string { return filepath.Join(StateDir, "fabric") }

// NodeDir is the folder of a node.
func NodeDir(node string) string { return filepath.Join(DataDir, node) }

// Load returns the state of the cluster on this machine. Without a cluster, the error is
// fs.ErrNotExist.
func Load() (State, error) {
	var s State
	b, err := os.ReadFile(stateFile())
	if err != nil {
		return s, fmt.Errorf("read cluster state: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("decode cluster state %s: %w", stateFile(), err)
	}
	return s, nil
}

// Save writes the state atomically.
func (s State) Save() error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cluster state: %w", err)
	}
	temp := stateFile() + ".new"
	if err := os.WriteFile(temp, b, 0o600); err != nil {
		return fmt.Errorf("write cluster state: %w", err)
	}
	if err := os.Rename(temp, stateFile()); err != nil {
		return fmt.Errorf("write cluster state: %w", err)
	}
	return nil
}

// ReadSysctls returns the machine's values of the sysctls that a kubelet sets.
func ReadSysctls() (map[string]string, error) {
	values := map[string]string{}
	for _, name := range sysctls() {
		b, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read sysctl: %w", err)
		}
		values[name] = strings.TrimSpace(string(b))
	}
	return values, nil
}

// RestoreSysctls restores the values that differ.
func RestoreSysctls(values map[string]string) error {
	now, err := ReadSysctls()
	if err != nil {
		return err
	}
	var errs []error
	for name, value := range values {
		if now[name] == value {
			continue
		}
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil {
			errs = append(errs, fmt.Errorf("restore sysctl: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Forget removes the state, after everything in it is restored.
func Forget() error {
	if err := os.Remove(stateFile()); err != nil {
		return fmt.Errorf("remove cluster state: %w", err)
	}
	return nil
}

// LacksResourceCapability reports whether this process, and so every process of a node,
// lacks CAP_SYS_RESOURCE.
func LacksResourceCapability() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	// This fails only for an invalid version or process.
	if err := unix.Capget(&header, &data[0]); err != nil {
		return true
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0
}
