package mps_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"
)

// The test binary stands in for the driver's programs: what it does depends on
// the name under which it was started. Beside that name it keeps a file "smi"
// of the commands that nvidia-smi got. It ends without what os.Exit does before, which
// in a race build is to rest for a second.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "nvidia-cuda-mps-control":
		syscall.Exit(control())
	case "nvidia-smi":
		syscall.Exit(smi())
	case supervisorName:
		syscall.Exit(fail(supervise()))
	}
	goleak.VerifyTestMain(m)
}

// standIns puts the programs on PATH and returns their folder.
func standIns(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	assert.NilError(t, err)
	for _, name := range []string{"nvidia-cuda-mps-control", "nvidia-smi", supervisorName} {
		assert.NilError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	t.Setenv("PATH", dir)
	return dir
}

// smi sets or prints the compute mode of a GPU, which it keeps in a file beside its name.
func smi() int {
	file := filepath.Join(filepath.Dir(os.Args[0]), "mode."+os.Args[2])
	if strings.HasPrefix(os.Args[3], "--query") {
		mode, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			mode, err = []byte("Default"), nil
		}
		// The program prints "Exclusive_Process" for what it takes as EXCLUSIVE_PROCESS.
		fmt.Println(strings.ReplaceAll(string(mode), "EXCLUSIVE_PROCESS", "Exclusive_Process"))
		return fail(err)
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(os.Args[0]), "smi"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	if strings.Contains(strings.Join(os.Args, " "), "GPU-refused") {
		return fail(fmt.Errorf("Unable to set the compute mode"))
	}
	_, err = fmt.Fprintln(f, strings.Join(os.Args[1:], " "))
	return fail(errors.Join(err, os.WriteFile(file, []byte(os.Args[4]), 0o600)))
}

func control() int {
	socket := filepath.Join(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), "control")
	if len(os.Args) > 1 && os.Args[1] == "-f" {
		return fail(serve(socket))
	}
	conn, err := net.Dial("unix", socket) //nolint:noctx // a stand-in
	if err != nil {
		return fail(fmt.Errorf("Cannot find MPS control daemon process"))
	}
	defer conn.Close()
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if _, err := io.WriteString(conn, line); err != nil {
		return fail(err)
	}
	_, err = io.Copy(os.Stdout, conn)
	return fail(err)
}

// serve answers commands and keeps them in its log folder.
func serve(socket string) error {
	listener, err := net.Listen("unix", socket) //nolint:noctx // a stand-in
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(os.Getenv("CUDA_MPS_LOG_DIRECTORY"), "commands"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintln(log, "visible", os.Getenv("CUDA_VISIBLE_DEVICES"))
	if err := os.WriteFile("/dev/shm/of-a-daemon", []byte(os.Getenv("CUDA_VISIBLE_DEVICES")), 0o600); err != nil {
		return err
	}
	var mu sync.Mutex
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		line, _ := bufio.NewReader(conn).ReadString('\n')
		switch command := strings.TrimSpace(line); {
		case command == "quit":
			return conn.Close()
		case command == "crash":
			return fmt.Errorf("out of memory")
		case strings.HasPrefix(command, "get_"):
			fmt.Fprintln(conn, "100.0")
		default:
			mu.Lock()
			fmt.Fprintln(log, command)
			mu.Unlock()
		}
		if err := conn.Close(); err != nil {
			return err
		}
	}
}

func fail(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
