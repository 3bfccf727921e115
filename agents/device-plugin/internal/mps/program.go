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

// commandLimit is the time limit for a command to a daemon, and for a call of nvidia-smi.
const commandLimit = 10 * time.Second

// quitLimit is how long a daemon may take to quit. The daemon waits for its clients, and the
// supervisor must not wait for them without a limit.
const quitLimit = 5 * time.Second

// Programs are the driver's programs on this node.
type Programs struct {
	// Root is the root of the file system for the programs. If it is empty, it is the root of
	// this process.
	Root string
	// control and smi are paths in Root.
	control, smi string
}

// FindPrograms finds the driver's programs. It searches PATH first, because a container runtime
// injects them there, and then the driver root. Programs in the driver root run with it as their
// file system, and need the MPS folder at the same path there.
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

// start starts the control daemon of d in the foreground, with private shared memory at
// /dev/shm. The daemon is killed when ctx ends.
func (p Programs) start(ctx context.Context, d Daemon, dirs dirs) (*process, error) {
	visible := make([]string, 0, len(d.GPUs))
	for _, g := range d.GPUs {
		visible = append(visible, string(g.UUID))
	}
	cmd := p.command(ctx, p.control, "-f")
	cmd.Env = append(cmd.Env, dirs.env()...)
	cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES="+strings.Join(visible, ","))
	// In its own process group, the daemon does not get our signals, and its servers end with it.
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

// process is a running control daemon, or one that has ended.
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

// send sends a command to a running control daemon, and waits for the answer.
func (p Programs) send(ctx context.Context, dirs dirs, command string) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := p.command(ctx, p.control)
	cmd.Env = append(cmd.Env, dirs.env()...)
	cmd.Stdin = strings.NewReader(command + "\n")
	_, err := run(ctx, cmd, controlName+" "+command)
	return err
}

// computeMode returns the compute mode of a GPU, as setComputeMode accepts it.
func (p Programs) computeMode(ctx context.Context, id gpu.UUID) (string, error) {
	out, err := p.nvidiaSMI(ctx, id, "--query-gpu=compute_mode", "--format=csv,noheader")
	if err != nil {
		return "", err
	}
	mode := strings.ToUpper(strings.TrimSpace(out))
	if !slices.Contains([]string{modeExclusive, "EXCLUSIVE_THREAD", "PROHIBITED"}, mode) {
		mode = modeDefault // or the driver does not report the mode
	}
	return mode, nil
}

// setComputeMode sets the compute mode of a GPU. EXCLUSIVE_PROCESS permits only the MPS server
// to use the GPU, DEFAULT permits any process.
func (p Programs) setComputeMode(ctx context.Context, id gpu.UUID, mode string) error {
	_, err := p.nvidiaSMI(ctx, id, "-c", mode)
	return err
}

// nvidiaSMI calls nvidia-smi for a GPU, and returns its output.
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

// run runs a program, and returns the end of its output.
func run(ctx context.Context, cmd *exec.Cmd, what string) (string, error) {
	// The output is limited, because a container could pose as the daemon and never stop answering.
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
