package nodeinit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"outrigger.dev/test/cluster/internal/render"
)

const (
	// restartDelay is the delay before a component that ended is restarted.
	restartDelay = time.Second
	// stopGrace is how long a component may take to end after SIGTERM.
	stopGrace = 10 * time.Second
)

// The states of a component.
const (
	Stopped = "stopped"
	Running = "running"
	// Waiting is the state of a component that ended and will be restarted.
	Waiting = "waiting"
)

// Status is the status of a component.
type Status struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// PID is the component's process ID in the node's PID namespace.
	PID int `json:"pid,omitempty"`
	// Ends is how many times the component ended without a request to stop.
	Ends int `json:"ends"`
	// RSS is the component's resident memory in bytes.
	RSS int64 `json:"rss,omitempty"`
}

// process is a component under supervision.
type process struct {
	render.Component
	// desired is set if the component should run.
	desired bool
	pid     int
	ends    int
	// exited is closed when the process pid has ended.
	exited chan struct{}
}

// Supervisor runs the components of a node and, as the first process of a PID namespace,
// reaps its orphans.
type Supervisor struct {
	logPath func(component string) string
	log     *slog.Logger

	// mu guards the processes. It is held during every start, so that a process is
	// recorded before its end can be noticed.
	mu        sync.Mutex
	processes []*process
}

// NewSupervisor returns a supervisor of the components, all of them stopped.
func NewSupervisor(components []render.Component, logPath func(string) string, log *slog.Logger) *Supervisor {
	s := &Supervisor{logPath: logPath, log: log}
	for _, c := range components {
		s.processes = append(s.processes, &process{Component: c})
	}
	return s
}

// Run reaps ended processes until ctx ends.
func (s *Supervisor) Run(ctx context.Context) {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	for {
		select {
		case <-ctx.Done():
			return
		case <-children:
			s.reap()
		}
	}
}

// Start starts a component. It has no effect if the component is running.
func (s *Supervisor) Start(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.find(name)
	if err != nil {
		return err
	}
	p.desired = true
	return s.launch(p)
}

// Stop stops a component and returns when it has ended.
func (s *Supervisor) Stop(ctx context.Context, name string) error {
	s.mu.Lock()
	p, err := s.find(name)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	p.desired = false
	pid, exited := p.pid, p.exited
	if pid != 0 {
		err = syscall.Kill(pid, syscall.SIGTERM)
	}
	s.mu.Unlock()
	if pid == 0 || err != nil {
		return err
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	for {
		select {
		case <-exited:
			return nil
		case <-grace.C:
			s.log.Warn("component did not end after SIGTERM, killing it", "component", name, "pid", pid)
			if err := s.kill(p, pid); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("stop %s: %w", name, ctx.Err())
		}
	}
}

// kill kills a component's process, unless it has already ended.
func (s *Supervisor) kill(p *process, pid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.pid != pid {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	return nil
}

// Status returns the status of all components, in the order of the spec.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Status
	for _, p := range s.processes {
		st := Status{Name: p.Name, State: Stopped, PID: p.pid, Ends: p.ends}
		switch {
		case p.pid != 0:
			st.State = Running
			st.RSS = residentMemory(p.pid)
		case p.desired:
			st.State = Waiting
		}
		all = append(all, st)
	}
	return all
}

// find returns a component. The caller holds mu.
func (s *Supervisor) find(name string) (*process, error) {
	for _, p := range s.processes {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("component %s: not on this node", name)
}

// launch starts the process of a desired component. The caller holds mu.
func (s *Supervisor) launch(p *process) error {
	if !p.desired || p.pid != 0 {
		return nil
	}
	log, err := os.OpenFile(s.logPath(p.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", p.Name, err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.Args[0], p.Args[1:]...) //nolint:noctx // Stop or the end of the node ends it.
	cmd.Stdout, cmd.Stderr = log, log
	// Signals to the first process must not reach the components.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.pid, p.exited = cmd.Process.Pid, make(chan struct{})
	s.log.Info("component started", "component", p.Name, "pid", p.pid)
	// reap waits for this process, as for every process of the node.
	if err := cmd.Process.Release(); err != nil {
		return fmt.Errorf("release %s: %w", p.Name, err)
	}
	return nil
}

// reap reaps all ended processes, and schedules the restart of components.
func (s *Supervisor) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		for _, p := range s.processes {
			if p.pid == pid {
				s.ended(p, status)
			}
		}
	}
}

// ended records the end of a component's process. The caller holds mu.
func (s *Supervisor) ended(p *process, status syscall.WaitStatus) {
	s.log.Info("component ended", "component", p.Name, "pid", p.pid,
		"exit_code", status.ExitStatus(), "signal", status.Signal(), "desired", p.desired)
	p.pid = 0
	close(p.exited)
	if !p.desired {
		return
	}
	p.ends++
	time.AfterFunc(restartDelay, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.launch(p); err != nil {
			s.log.Error("cannot restart component", "component", p.Name, "err", err)
		}
	})
}
