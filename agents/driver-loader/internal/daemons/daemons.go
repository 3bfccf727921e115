// Package daemons keeps the daemons of a driver running. The persistence daemon keeps the GPUs
// initialized. The fabric manager is required by GPUs of a machine with NVLink switches, and the
// subnet manager sets up switches of NVLink 5. IMEX connects GPUs of several nodes. The license client
// gets the license of a virtual GPU. The programs are in the driver root.
package daemons

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
)

// Daemon is a program of the driver. Without a Socket, it daemonizes itself.
type Daemon struct {
	Name string
	// Program and Config are paths below the driver root. Config may be empty.
	Program, Config string
	// ConfigFlag is the flag for the path of the configuration. Default: --config.
	ConfigFlag string
	Args       []string
	// PIDFile and Socket are paths below the folder of PID files. The daemon creates Socket when it
	// is ready. Socket may be empty.
	PIDFile, Socket string
	// Required is set if the GPUs do not compute without the daemon.
	Required bool
	// Foreground is set if the program does not daemonize itself, and has no socket.
	Foreground bool
	// Inside is set if the daemon runs in the agent's container, because it reads files there.
	Inside bool
}

// known returns all daemons, with the paths and arguments of NVIDIA's driver container.
func known() []Daemon {
	return []Daemon{
		{
			Name: persistenced, Program: "usr/bin/" + persistenced, Args: []string{"--persistence-mode"},
			PIDFile: "nvidia-persistenced/nvidia-persistenced.pid",
		},
		subnetDaemon(),
		{
			Name: fabricManager, Program: "usr/bin/" + fabricManager, Config: "usr/share/nvidia/nvswitch/fabricmanager.cfg",
			PIDFile: "nvidia-fabricmanager/nv-fabricmanager.pid", Required: true,
		},
		imexDaemon(),
		{Name: gridd, Program: "usr/bin/" + gridd, PIDFile: "nvidia-gridd/nvidia-gridd.pid", Inside: true},
	}
}

const (
	persistenced  = "nvidia-persistenced"
	fabricManager = "nv-fabricmanager"
	gridd         = "nvidia-gridd"
)

// maxCommand is the number of bytes that the kernel keeps of a process's name.
const maxCommand = 15

// command returns the name of the daemon's process.
func (d Daemon) command() string { return d.Name[:min(len(d.Name), maxCommand)] }

// Known reports whether a process with this name is a daemon of the driver.
func Known(command string) bool {
	return slices.ContainsFunc(known(), func(d Daemon) bool { return d.command() == command })
}

// Machine describes the properties of a machine that decide which daemons it needs.
type Machine struct {
	// Switches is set if the driver has NVLink switches. Subnet is set if the machine has switches
	// of NVLink 5, which the driver does not see and a subnet manager sets up.
	Switches, Subnet bool
	// License is set if the node has the license configuration of a virtual GPU. IMEX is set if the node
	// has a list of the nodes whose GPUs are connected.
	License, IMEX bool
}

// Wanted returns the daemons that a machine needs and that the driver has. The function has reports
// whether the driver root has a file. If a required daemon is missing, the error is a Cause.
func Wanted(m Machine, has func(path string) bool) ([]Daemon, error) {
	needed := map[string]bool{subnetManager: m.Subnet, fabricManager: m.Switches || m.Subnet, gridd: m.License, imex: m.IMEX, persistenced: true}
	var out []Daemon
	for _, d := range known() {
		if d.Name == subnetManager && !has(d.Program) && has(otherSubnetManager) {
			d.Program = otherSubnetManager
		}
		switch {
		case !needed[d.Name]:
		case has(d.Program):
			out = append(out, d)
		case d.Name == subnetManager:
			return out, cause.New(cause.SubnetManagerMissing, "fabric manager", "this machine has NVLink 5 switches, but the driver root has no "+d.Program+", the subnet manager: without it, CUDA programs fail with error 802")
		case d.Required:
			return out, cause.New(cause.FabricManagerMissing, "fabric manager", "this machine has NVLink switches, but the driver root has no "+d.Program+": without it, CUDA programs fail with error 802")
		}
	}
	return out, nil
}

// Config configures a Supervisor.
type Config struct {
	// Root is the driver root; Proc and Sys are the host's /proc and /sys.
	Root, Proc, Sys string
	// Host is the root of the host, as a path of the agent. If it is set and not "/", daemons run on
	// the host, and outlive the agent's container.
	Host string
	// Run is the folder of PID files, /run by default. License is the file that enables the license
	// client, /etc/nvidia/gridd.conf by default.
	Run, License string
	// IMEX is the host's folder with the configuration of IMEX, etc/nvidia-imex below Host by default.
	IMEX string
	// Fabric has settings for the configuration of the fabric manager, by name.
	Fabric map[string]string
}

// Supervisor starts and stops the daemons of a driver.
type Supervisor struct {
	cfg Config
	// tried holds the optional daemons that did not start. They are not started again before Stop.
	tried map[string]bool
	// The map manages has the result of reading each file of vital product data, because this is slow:
	// whether the device manages switches of NVLink 5. mu guards the map.
	mu      sync.Mutex
	manages map[string]bool
}

// New returns a Supervisor.
func New(cfg Config) *Supervisor {
	cfg.Run, cfg.License = cmp.Or(cfg.Run, "/run"), cmp.Or(cfg.License, "/etc/nvidia/gridd.conf")
	cfg.IMEX = cmp.Or(cfg.IMEX, filepath.Join("/", cfg.Host, "etc/nvidia-imex"))
	return &Supervisor{cfg: cfg, tried: map[string]bool{}, manages: map[string]bool{}}
}

// Missing returns the names of the daemons that are to be started. Optional daemons that did not start are not
// among them.
func (s *Supervisor) Missing() []string {
	var out []string
	for _, state := range s.States() {
		if !state.Running && !s.tried[state.Name] {
			out = append(out, state.Name)
		}
	}
	return out
}

// State says whether a daemon runs.
type State struct {
	Name    string
	Running bool
}

// States returns the daemons that should run. They include a required daemon that the driver does not have. States
// may be called concurrently with the other methods.
func (s *Supervisor) States() []State {
	wanted, err := s.wanted()
	var out []State
	if err != nil {
		out = append(out, State{Name: fabricManager})
	}
	for _, d := range wanted {
		out = append(out, State{d.Name, s.pid(d) != 0})
	}
	return out
}

func (s *Supervisor) wanted() ([]Daemon, error) {
	switches, err := os.ReadDir(filepath.Join(s.cfg.Proc, "driver/nvidia-nvswitch/devices"))
	m := Machine{Subnet: len(s.bridges()) > 0, Switches: err == nil && len(switches) > 0, License: s.Licensed(), IMEX: s.connected()}
	return Wanted(m, func(path string) bool { return executable(filepath.Join(s.cfg.Root, path)) })
}

// runsOnHost reports whether a daemon runs on the host, outside of the agent's container.
func (s *Supervisor) runsOnHost(d Daemon) bool {
	return s.cfg.Host != "" && s.cfg.Host != "/" && !d.Inside
}

// pidDir returns the folder of a daemon's PID file, as a path of the agent.
func (s *Supervisor) pidDir(d Daemon) string {
	if s.runsOnHost(d) {
		return filepath.Join(s.cfg.Host, s.cfg.Run)
	}
	return s.cfg.Run
}

// pid returns the process ID of a daemon, or 0 if it does not run.
func (s *Supervisor) pid(d Daemon) int {
	data, err := hostfs.ReadFile(filepath.Join(s.pidDir(d), d.PIDFile), 64)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 1 {
		return 0
	}
	// If the daemon was killed, another process can have the process ID in the file.
	status, err := hostfs.ReadFile(fmt.Sprintf("/proc/%d/stat", pid), 4096)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "(")
	end := strings.LastIndex(rest, ") ")
	if end < 0 || rest[:end] != d.command() || strings.HasPrefix(rest[end+2:], "Z") {
		return 0
	}
	return pid
}

// stopLimit is the longest time between SIGTERM and the end of a daemon.
const stopLimit = 10 * time.Second

// Stop ends the daemons, because a driver in use cannot be unloaded.
func (s *Supervisor) Stop(ctx context.Context) error {
	clear(s.tried)
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	var errs []error
	for _, d := range slices.Backward(known()) {
		if pid := s.pid(d); pid != 0 {
			errs = append(errs, s.stop(ctx, d, pid))
		}
	}
	return errors.Join(errs...)
}

func (s *Supervisor) stop(ctx context.Context, d Daemon, pid int) error {
	if err := unix.Kill(pid, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("stop %s: %w", d.Name, err)
	}
	for s.pid(d) == pid {
		if !pace.Pause(ctx, 20*time.Millisecond) {
			return cause.Cause{Code: cause.DriverDaemonStaysAlive, Subject: d.Name, Text: fmt.Sprintf("it still runs %s after SIGTERM (pid %d)", stopLimit, pid), Fix: "end it: kill " + strconv.Itoa(pid)}
		}
	}
	return nil
}
