package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/text"
)

// Names of the driver's programs.
const (
	controlName = "nvidia-cuda-mps-control"
	smiName     = "nvidia-smi"
)

// askLimit bounds a command to a daemon and a call of nvidia-smi.
const commandLimit = 10 * time.Second

// quitLimit is how long a daemon may take to quit. It waits for its clients, which must
// not hold up a node.
const quitLimit = 5 * time.Second

// Programs are the driver's programs on this node.
type Programs struct {
	// Root is the root of the file system that they see; empty for our own.
	Root string
	// control and smi are paths in Root.
	control, smi string
}

// FindPrograms finds the driver's programs: on our own PATH, where a container runtime
// puts them, or else in the driver root. There they run with the driver root as their
// file system, which must have the MPS folder at the same path.
func FindPrograms(driverRoot, mpsRoot string) (Programs, error) {
	if control, err := exec.LookPath(controlName); err == nil {
		if smi, err := exec.LookPath(smiName); err == nil {
			return Programs{control: control, smi: smi}, nil
		}
	}
	p := Programs{Root: driverRoot}
	if filepath.Clean(driverRoot) == "/" {
		p.Root = ""
	}
	for _, want := range []struct {
		name string
		path *string
	}{{controlName, &p.control}, {smiName, &p.smi}} {
		path := filepath.Join("/usr/bin", want.name)
		if _, err := os.Stat(filepath.Join(driverRoot, path)); err != nil {
			return Programs{}, fmt.Errorf("find %s: not on PATH, and %w (install the driver's compute utilities)", want.name, err)
		}
		*want.path = path
	}
	if p.Root != "" && !sameFolder(mpsRoot, filepath.Join(p.Root, mpsRoot)) {
		return Programs{}, fmt.Errorf("find %s: it runs in driver root %s and would not see %s there: mount the host's / at the driver root with propagation, or let the runtime inject the driver's programs",
			controlName, driverRoot, mpsRoot)
	}
	return p, nil
}

func sameFolder(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// start starts the control daemon of d in the foreground, with shared memory of its own at
// /dev/shm. It is killed when ctx ends.
func (p Programs) start(ctx context.Context, d Daemon, dirs dirs) (*process, error) {
	visible := make([]string, 0, len(d.GPUs))
	for _, g := range d.GPUs {
		visible = append(visible, string(g.UUID))
	}
	cmd := p.command(ctx, p.control, "-f")
	cmd.Env = append(cmd.Env, dirs.env()...)
	cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES="+strings.Join(visible, ","))
	// In a group of its own it does not get our signals, and its servers die with it.
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var output text.Tail
	cmd.Stdout, cmd.Stderr = &output, &output
	proc := &process{ended: make(chan struct{})}
	started := make(chan error)
	go ownThread(func() {
		err := bindPrivate(dirs.shm, filepath.Join("/", p.Root, "dev/shm"))
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err != nil {
			return
		}
		err = cmd.Wait()
		proc.err = fmt.Errorf("%s ended: %s", controlName, exitReason(err, output.String()))
		close(proc.ended)
	})
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", controlName, err)
	}
	return proc, nil
}

// process is a control daemon that was started.
type process struct {
	ended chan struct{}
	// err is set when ended is closed.
	err error
}

func exitReason(err error, output string) string {
	text := "by itself"
	if err != nil {
		text = err.Error()
	}
	if output = strings.TrimSpace(output); output != "" {
		text += ": " + output
	}
	return text
}

// ask sends a command to a running control daemon, and returns when it has answered.
func (p Programs) send(ctx context.Context, dirs dirs, command string) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := p.command(ctx, p.control)
	cmd.Env = append(cmd.Env, dirs.env()...)
	cmd.Stdin = strings.NewReader(command + "\n")
	_, err := run(ctx, cmd, controlName+" "+command)
	return err
}

// computeMode returns who may use a GPU, as setComputeMode takes it.
func (p Programs) computeMode(ctx context.Context, id gpu.UUID) (string, error) {
	out, err := p.nvidiaSMI(ctx, id, "--query-gpu=compute_mode", "--format=csv,noheader")
	if err != nil {
		return "", err
	}
	mode := strings.ToUpper(strings.TrimSpace(out))
	if !slices.Contains([]string{modeExclusive, "EXCLUSIVE_THREAD", "PROHIBITED"}, mode) {
		mode = modeDefault // also where the driver does not know
	}
	return mode, nil
}

// setComputeMode sets who may use a GPU: EXCLUSIVE_PROCESS for the MPS server alone,
// DEFAULT for any process.
func (p Programs) setComputeMode(ctx context.Context, id gpu.UUID, mode string) error {
	_, err := p.nvidiaSMI(ctx, id, "-c", mode)
	return err
}

// manage calls nvidia-smi for a GPU, and returns what it prints.
func (p Programs) nvidiaSMI(ctx context.Context, id gpu.UUID, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	args = append([]string{"-i", string(id)}, args...)
	return run(ctx, p.command(ctx, p.smi, args...), smiName+" "+strings.Join(args, " "))
}

func (p Programs) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: p.Root}
	if p.Root != "" {
		cmd.Dir = "/"
	}
	cmd.WaitDelay = time.Second
	return cmd
}

// run returns the end of what a program prints.
func run(ctx context.Context, cmd *exec.Cmd, what string) (string, error) {
	// A container that takes the daemon's place could answer without end.
	var out, errOut text.Tail
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "", fmt.Errorf("%s: no answer in %s", what, commandLimit)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %s", what, exitReason(err, errOut.String()+out.String()))
	}
	return out.String(), nil
}
