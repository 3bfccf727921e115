package mps

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/sim/internal/background"
)

// server is a running server, as the daemon sees it.
type server struct {
	cmd *exec.Cmd
	pid int
	uid int
	// devices are the UUIDs of its devices, in the order of CUDA_VISIBLE_DEVICES of the daemon.
	devices  []string
	settings settings
	// stdin ends the server when it is closed, also by the end of the daemon.
	stdin io.Closer
}

// startServer starts a server, and returns when it uses its devices. It runs as the user of the
// daemon.
func startServer(uid int, s settings) (*server, error) {
	cmd, err := background.Command(serverName) // its stdin ends it
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY=/dev/null") // it is not a client
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, fmt.Errorf("connect the server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	text, ok := strings.CutPrefix(strings.TrimSpace(line), accepted)
	if err != nil || !ok {
		_ = stdin.Close() // the server has ended
		return nil, fmt.Errorf("start the server: %s%w", strings.TrimPrefix(text, rejected), errors.Join(err, cmd.Wait()))
	}
	return &server{cmd: cmd, pid: cmd.Process.Pid, uid: uid, devices: strings.Fields(text), settings: s, stdin: stdin}, nil
}

// shares returns the devices with the memory limits of a client, as sim/lib/cuda_mps.c reads them.
func (s *server) shares() []string {
	var list []string
	for i, uuid := range s.devices {
		list = append(list, fmt.Sprintf("%s=%d", uuid, s.limit(i)))
	}
	return list
}

// limit returns the memory limit of a device, or 0. A limit of its UUID takes precedence.
func (s *server) limit(index int) uint64 {
	if limit, ok := s.settings.memory[s.devices[index]]; ok {
		return limit
	}
	return s.settings.memory[strconv.Itoa(index)]
}

// log logs the settings of a server that has started.
func (s *server) log(l logs) {
	l.serverf(s.pid, "Active Threads Percentage set to %.1f", s.settings.threads)
	for i := range s.devices {
		if limit := s.limit(i); limit > 0 {
			l.serverf(s.pid, "Device pinned memory limit for device %d set to 0x%x bytes", i, limit)
		}
	}
	l.serverf(s.pid, "Server has started")
}

// A server waits so long for GPUs that another process uses alone, such as the server of a daemon
// that was killed.
const (
	occupiedLimit = 2 * time.Second
	occupiedPause = 20 * time.Millisecond
)

// runServer is the program of a server: it uses all visible devices, reports them, and ends with its
// stdin.
func runServer(in io.Reader, out io.Writer) error {
	uuids, err := useDevices()
	for start := time.Now(); isOccupied(err) && time.Since(start) < occupiedLimit; uuids, err = useDevices() {
		<-time.After(occupiedPause)
	}
	if err != nil {
		_, _ = fmt.Fprintf(out, "%s%v\n", rejected, err) // the daemon may have ended
		return err
	}
	if _, err := fmt.Fprintf(out, "%s%s\n", accepted, strings.Join(uuids, " ")); err != nil {
		return fmt.Errorf("report the devices: %w", err)
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
