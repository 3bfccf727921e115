package daemons

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
)

// startLimit is the longest time until a daemon has daemonized itself. The fabric manager sets up
// all links first.
const startLimit = 5 * time.Minute

// maxConfig is the largest size of the fabric manager's configuration, in bytes.
const maxConfig = 1 << 20

// Start starts the daemons that should run and do not run. It returns Causes for required daemons.
// It tries an optional daemon once, and returns its error in skipped.
func (s *Supervisor) Start(ctx context.Context) (skipped, err error) {
	wanted, err := s.wanted()
	for _, d := range wanted {
		if s.pid(d) != 0 || s.tried[d.Name] {
			continue
		}
		failed := s.start(ctx, d)
		why, known := errors.AsType[cause.Cause](failed)
		switch {
		case failed == nil:
		case d.Required && known:
			return skipped, errors.Join(err, why)
		case d.Required:
			// The next daemon may need this one.
			return skipped, errors.Join(err, cause.New(cause.DriverDaemonFailed, d.Name, text.OneLine(failed)))
		case ctx.Err() == nil:
			s.tried[d.Name] = true
			skipped = errors.Join(skipped, failed)
		}
	}
	return skipped, err
}

func (s *Supervisor) start(ctx context.Context, d Daemon) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Join(s.pidDir(d), d.PIDFile)), 0o755); err != nil {
		return err
	}
	args, err := s.arguments(d)
	if err != nil {
		return err
	}
	// The output goes to a file. A pipe would not work: the daemon keeps its output open, and the
	// agent would wait for its end. The file is next to the PID file, because an image might not
	// have a folder for temporary files.
	log, err := os.CreateTemp(filepath.Dir(filepath.Join(s.pidDir(d), d.PIDFile)), "start-*.log")
	if err != nil {
		return err
	}
	defer log.Close()
	defer os.Remove(log.Name())
	if err := s.execute(ctx, d, args, log); err != nil {
		return fmt.Errorf("start %s: %w%s", d.Name, err, tail(log))
	}
	pid := s.pid(d)
	if pid == 0 {
		return fmt.Errorf("start %s: it exited immediately%s", d.Name, tail(log))
	}
	if s.runsOnHost(d) {
		return s.leaveContainer(d, pid)
	}
	return nil
}

// arguments returns the arguments of a daemon, after it has written the configuration file.
func (s *Supervisor) arguments(d Daemon) ([]string, error) {
	args, err := s.management(d)
	if err != nil {
		return nil, err
	}
	args = append(args, d.Args...)
	if d.Config == "" {
		return args, nil
	}
	config, err := s.config(d)
	return append(args, cmp.Or(d.ConfigFlag, "--config"), config), err
}

// execute runs the program of a daemon until the daemon is in the background or ready.
func (s *Supervisor) execute(ctx context.Context, d Daemon, args []string, log *os.File) error {
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	life := limited
	stays := d.Socket != "" || d.Foreground
	if stays {
		// The process may be the daemon itself, and must outlive ctx.
		life = context.WithoutCancel(ctx)
	}
	if d.Socket != "" {
		_ = os.Remove(filepath.Join(s.pidDir(d), d.Socket))
	}
	cmd := exec.CommandContext(life, filepath.Join(s.cfg.Root, d.Program), args...) //nolint:gosec // a program of the driver
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+strings.Join(s.libraries(), ":"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: stays}
	run := cmd.Run
	if stays {
		run = cmd.Start
	}
	var err error
	if s.runsOnHost(d) {
		err = onHost(s.cfg.Proc, run)
	} else {
		err = run()
	}
	if err != nil || !stays {
		return err
	}
	return s.ready(limited, d, cmd)
}

// libraries returns the folders of the driver root that have libraries.
func (s *Supervisor) libraries() []string {
	var out []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu", "usr/lib64", "usr/lib", "opt/nvidia/nvlsm/lib"} {
		found, err := filepath.Glob(filepath.Join(s.cfg.Root, pattern))
		if err == nil {
			out = append(out, found...)
		}
	}
	return out
}

// config writes the configuration of a daemon, with paths in the driver root, and returns its path.
func (s *Supervisor) config(d Daemon) (string, error) {
	data, err := s.readConfig(d)
	if err != nil {
		return "", fmt.Errorf("start %s: %w", d.Name, err)
	}
	var out strings.Builder
	settings, set := s.settings(d), map[string]bool{}
	for line := range strings.Lines(s.withDriverRoot(string(data))) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		key = strings.TrimSpace(key)
		wanted, own := settings[key]
		switch value = strings.TrimSpace(value); {
		case ok && own:
			line = key + "=" + wanted + "\n"
			set[key] = true
		case ok && key == "TOPOLOGY_FILE_PATH" && !strings.HasPrefix(value, s.cfg.Root):
			line = key + "=" + filepath.Join(s.cfg.Root, value) + "\n"
		}
		out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if !set[key] {
			out.WriteString(key + "=" + settings[key] + "\n")
		}
	}
	path := filepath.Join(filepath.Dir(d.PIDFile), filepath.Base(d.Config))
	_, err = hostfs.WriteIfChanged(filepath.Join(s.pidDir(d), path), []byte(out.String()), 0o644)
	return filepath.Join(s.cfg.Run, path), err
}

// maxTail is the number of bytes that are shown of a daemon's output.
const maxTail = 512

// tail returns the last part of a daemon's output in the form of errorSuffix.
func tail(log *os.File) string {
	info, err := log.Stat()
	if err != nil {
		return ""
	}
	data := make([]byte, min(info.Size(), maxTail))
	n, _ := log.ReadAt(data, info.Size()-int64(len(data)))
	return errorSuffix(data[:n])
}

// errorSuffix returns the output of a program as a suffix of an error: a colon and one line, or ""
// without output.
func errorSuffix(output []byte) string {
	output = bytes.TrimSpace(output)
	if len(output) == 0 {
		return ""
	}
	return ": " + text.Printable(strings.ReplaceAll(string(output), "\n", "; "))
}
