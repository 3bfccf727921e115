// Package mps simulates the programs of MPS, NVIDIA's Multi-Process Service: the control daemon, its
// command line, and the server, which uses the GPUs for all clients.
//
// Programs reach the daemon through the socket "control". A connection has one line each way. The
// line is a command of the command line, or "client". The answer begins with "ok" or "error". The
// process of sim/lib/cuda_mps.c is a client until its connection ends.
package mps

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"outrigger.dev/sim/internal/background"
)

// Names of the programs.
const (
	controlName = "nvidia-cuda-mps-control"
	serverName  = "nvidia-cuda-mps-server"
)

// IsProgram reports whether a program with this name belongs to MPS.
func IsProgram(name string) bool { return name == controlName || name == serverName }

// Run simulates the program with this name.
func Run(name string, args []string, in io.Reader, out io.Writer) error {
	if name == serverName {
		return runServer(in, out)
	}
	dirs := environment()
	switch strings.Join(args, " ") {
	case "":
		return dirs.shell(in, out)
	case "-f":
		return dirs.runDaemon()
	case "-d":
		return background.Start(controlName, dirs.pidFile(), []string{"-f"}, nil)
	default:
		return fmt.Errorf("%s: %s: not simulated; want -d, -f or no option", name, strings.Join(args, " "))
	}
}

// dirs are the folders of a daemon.
type dirs struct{ pipe, log string }

// environment returns the folders that the variables name.
func environment() dirs {
	d := dirs{pipe: "/tmp/nvidia-mps", log: "/var/log/nvidia-mps"}
	for name, at := range map[string]*string{"CUDA_MPS_PIPE_DIRECTORY": &d.pipe, "CUDA_MPS_LOG_DIRECTORY": &d.log} {
		if value := os.Getenv(name); value != "" {
			*at = value
		}
	}
	return d
}

func (d dirs) socket() string  { return filepath.Join(d.pipe, "control") }
func (d dirs) pidFile() string { return filepath.Join(d.pipe, controlName+".pid") }

// The first words of an answer.
const (
	accepted = "ok "
	rejected = "error "
)

var errNoDaemon = errors.New("Cannot find MPS control daemon process") //nolint:staticcheck // NVIDIA's text

// shell sends the commands of in to the daemon, and prints the answers.
func (d dirs) shell(in io.Reader, out io.Writer) error {
	var errs []error
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		command := strings.TrimSpace(lines.Text())
		if command == "" {
			continue
		}
		answer, err := d.ask(command)
		if errors.Is(err, errNoDaemon) {
			return err
		}
		errs = append(errs, err)
		if _, err := io.WriteString(out, answer); err != nil {
			return fmt.Errorf("print the answer: %w", err)
		}
		if command == "quit" || strings.HasPrefix(command, "quit ") {
			break
		}
	}
	return errors.Join(append(errs, lines.Err())...)
}

// ask sends a command to the daemon, and returns the answer.
func (d dirs) ask(command string) (string, error) {
	conn, err := net.Dial("unix", d.socket()) //nolint:noctx // the daemon is on this machine
	if err != nil {
		return "", errNoDaemon
	}
	_, err = io.WriteString(conn, command+"\n")
	answer, errRead := io.ReadAll(conn)
	if err := errors.Join(err, errRead, conn.Close()); err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	if text, ok := strings.CutPrefix(string(answer), accepted); ok {
		return text, nil
	}
	if text, ok := strings.CutPrefix(string(answer), rejected); ok {
		return "", errors.New(strings.TrimSpace(text))
	}
	return "", fmt.Errorf("%s: the daemon has ended", command)
}
