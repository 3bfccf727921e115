package daemons

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
)

// subnetManager is the daemon that sets up switches of NVLink 5. The fabric manager requires it there.
const subnetManager = "nvlsm"

const (
	subnetShare = "/usr/share/nvidia/nvlsm/"
	subnetOpt   = "/opt/nvidia/nvlsm/"
	// otherSubnetManager is its path below the driver root in some distributions.
	otherSubnetManager = "usr/bin/" + subnetManager
)

// subnetDaemon returns the subnet manager, with the paths of NVIDIA's package. The fabric manager
// expects the socket at this path (option FM_SM_IPC_INTERFACE).
func subnetDaemon() Daemon {
	return Daemon{
		Name: subnetManager, Program: subnetOpt[1:] + "sbin/" + subnetManager, Config: subnetShare[1:] + "nvlsm.conf",
		PIDFile: "nvidia-fabricmanager/nvlsm.pid", Socket: "nvidia-fabricmanager/fm_sm_ipc.socket", Required: true,
	}
}

// bridges returns the InfiniBand devices that manage switches of NVLink 5. Their vital product data
// contains SW_MNG. NVIDIA's driver container and start script recognize them in the same way.
// Devices may appear later, when their driver is loaded.
func (s *Supervisor) bridges() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	files, err := filepath.Glob(filepath.Join(s.cfg.Sys, "class/infiniband/*/device/vpd"))
	if err != nil {
		return nil
	}
	var out []string
	for _, file := range files {
		if _, seen := s.manages[file]; !seen {
			data, err := hostfs.ReadFile(file, maxVPD)
			if err != nil {
				continue
			}
			s.manages[file] = bytes.Contains(data, []byte("SW_MNG"))
		}
		if s.manages[file] {
			out = append(out, filepath.Dir(filepath.Dir(file)))
		}
	}
	return out
}

// maxVPD is the largest size of vital product data that PCI allows.
const maxVPD = 32 << 10

// port returns the GUID of the first port that manages the switches, such as "0x58a2e10300e1f4c2".
// It is the second half of the port's first GID: "fe80:0000:0000:0000:58a2:e103:00e1:f4c2".
func (s *Supervisor) port() (string, error) {
	for _, dir := range s.bridges() {
		data, err := hostfs.ReadFile(filepath.Join(dir, "ports/1/gids/0"), 256)
		groups := strings.Split(strings.TrimSpace(string(data)), ":")
		if err != nil || len(groups) != 8 {
			continue
		}
		if guid := strings.Join(groups[4:], ""); strings.Trim(guid, "0") != "" {
			return "0x" + guid, nil
		}
	}
	return "", cause.Cause{
		Code: cause.DriverDaemonFailed, Subject: subnetManager, Text: "no port of the devices that manage the NVLink switches has a GUID: " + strings.Join(s.bridges(), ", "),
		Fix: "check the state of the devices with ibstat; their driver is mlx5_ib, of the package linux-modules-extra or of NVIDIA's DOCA",
	}
}

// management returns the additional arguments for a daemon on a machine with switches of NVLink 5.
func (s *Supervisor) management(d Daemon) ([]string, error) {
	if len(s.bridges()) == 0 || d.Name != subnetManager && d.Name != fabricManager {
		return nil, nil
	}
	guid, err := s.port()
	if err != nil {
		return nil, err
	}
	if d.Name == fabricManager {
		return []string{"--fm-sm-mgmt-port-guid", guid}, nil
	}
	devices, err := filepath.Glob(filepath.Join(s.cfg.Sys, "class/infiniband_mad/umad*"))
	if err != nil || len(devices) == 0 {
		return nil, cause.Cause{
			Code: cause.DriverDaemonFailed, Subject: subnetManager, Text: "it reaches the NVLink switches through the kernel module ib_umad, which is not loaded",
			Fix: "load it on the host: modprobe ib_umad; and at each boot: echo ib_umad > /etc/modules-load.d/ib_umad.conf",
		}
	}
	return []string{"--guid", guid, "--pid_file", filepath.Join(s.cfg.Run, d.PIDFile), "--log_file", "/var/log/nvlsm.log"}, nil
}

// withDriverRoot replaces the folders of the subnet manager in its configuration by the folders in
// the driver root.
func (s *Supervisor) withDriverRoot(config string) string {
	for _, dir := range []string{subnetShare, subnetOpt} {
		config = strings.ReplaceAll(config, dir, filepath.Join(s.cfg.Root, dir)+"/")
	}
	return config
}

const (
	// readyLimit is the longest time until a daemon has created its socket.
	readyLimit = 30 * time.Second
	// foregroundLimit is the time after which a program in the foreground, which has no socket, counts as started.
	foregroundLimit = time.Second
)

// ready waits until a started daemon has created its socket, or stays in the foreground. If that takes too long, it
// kills the daemon.
func (s *Supervisor) ready(ctx context.Context, d Daemon, cmd *exec.Cmd) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	began, ended := time.Now(), make(chan error, 1)
	// The goroutine ends with the daemon, or with this process.
	go func() { ended <- cmd.Wait() }()
	for {
		if _, err := os.Stat(filepath.Join(s.pidDir(d), d.Socket)); err == nil {
			switch runs := s.pid(d) != 0; {
			case runs && (!d.Foreground || time.Since(began) > foregroundLimit):
				return nil
			case !runs && ended != nil:
				// A daemon writes a PID file only if it has daemonized itself.
				if err := hostfs.WriteFile(filepath.Join(s.pidDir(d), d.PIDFile), fmt.Appendln(nil, cmd.Process.Pid), 0o644); err != nil {
					return errors.Join(err, s.kill(d, cmd))
				}
			}
		}
		select {
		case err := <-ended:
			if err != nil || d.Foreground {
				return errors.Join(errors.New("it ended at once"), err)
			}
			ended = nil // the started process has ended, and the daemon runs in the background
		default:
		}
		if !pace.Pause(ctx, 20*time.Millisecond) {
			return errors.Join(fmt.Errorf("it did not create the socket %s within %s", filepath.Join(s.cfg.Run, d.Socket), readyLimit), s.kill(d, cmd))
		}
	}
}

// kill kills a daemon that has not become ready.
func (s *Supervisor) kill(d Daemon, cmd *exec.Cmd) error {
	if pid := s.pid(d); pid != 0 && pid != cmd.Process.Pid {
		p, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		return p.Kill()
	}
	if err := cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
