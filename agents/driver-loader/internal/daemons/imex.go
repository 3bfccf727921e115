package daemons

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"outrigger.dev/pkg/hostfs"
)

// imex is the daemon that lets GPUs of several nodes use each other's memory over NVLink.
const imex = "nvidia-imex"

// imexNodes is the file with the addresses of the nodes. It is on the host, because a driver image does not
// know the nodes.
const imexNodes = "nodes_config.cfg"

// imexDaemon returns IMEX. It has no PID file, and is therefore not started as a daemon.
func imexDaemon() Daemon {
	return Daemon{
		Name: imex, Program: "usr/bin/" + imex, Config: "etc/nvidia-imex/config.cfg", ConfigFlag: "-c",
		PIDFile: "nvidia-imex/nvidia-imex.pid", Foreground: true,
	}
}

// connected reports whether the host lists the nodes whose GPUs are connected.
func (s *Supervisor) connected() bool {
	data, err := hostfs.ReadFile(filepath.Join(s.cfg.IMEX, imexNodes), maxConfig)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}

// readConfig reads the configuration of a daemon from the driver root. The host's own configuration of
// IMEX comes first.
func (s *Supervisor) readConfig(d Daemon) ([]byte, error) {
	if d.Name == imex {
		data, err := hostfs.ReadFile(filepath.Join(s.cfg.IMEX, filepath.Base(d.Config)), maxConfig)
		if !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
	return hostfs.ReadFile(filepath.Join(s.cfg.Root, d.Config), maxConfig)
}
