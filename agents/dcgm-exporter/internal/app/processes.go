package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/procowner"
)

func (s *settings) commands() []*cli.Command {
	return []*cli.Command{{
		Name:   "processes",
		Usage:  "print the processes that use the GPUs of the node as JSON, with their pods",
		Action: s.printProcesses,
	}}
}

// printProcesses prints the processes on all GPUs. With an error, it prints the processes on the other GPUs.
func (s *settings) printProcesses(c *cli.Context) (err error) {
	log := agent.Logger(c)
	d, err := s.driver()
	if err != nil {
		return err
	}
	session, err := d.Session(log)
	if err != nil {
		return err
	}
	source := d.Reader(session, log)
	defer func() { err = errors.Join(err, source.Close()) }()
	node, err := source.Snapshot(c.Context)
	if err != nil {
		return fmt.Errorf("read GPUs: %w", err)
	}
	var failed []error
	found := []procowner.GPUProcess{}
	for _, g := range node.GPUs {
		sampler := telemetry.New(telemetry.Config{Session: session, GPU: g.UUID})
		sample, err := sampler.Sample(c.Context, telemetry.Task{GPU: g, Seen: time.Now(), Processes: true})
		if err == nil && sample.Processes == nil {
			err = errors.New("the driver does not report them")
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("list the processes on GPU %d: %w", g.Index, err))
		}
		found = append(found, processesOn(g, sample.Processes)...)
	}
	// The processes are in /proc, not in --proc-root, which may have only the driver's files.
	addOwners(procowner.Root{PodLogs: s.podLogs}, found)
	enc := json.NewEncoder(c.App.Writer)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{"processes": found}); err != nil {
		return fmt.Errorf("print processes: %w", err)
	}
	return errors.Join(failed...)
}

// processesOn returns the processes on a GPU, without their owners.
func processesOn(g gpu.GPU, list []telemetry.Process) (out []procowner.GPUProcess) {
	for _, p := range list {
		one := procowner.GPUProcess{GPU: g.Index, UUID: string(g.UUID), PID: int(p.PID), MemoryMiB: p.Memory >> 20}
		if p.Instance != gpu.NoInstance {
			one.GPUInstance = &p.Instance
		}
		out = append(out, one)
	}
	return out
}

// addOwners adds the command, the pod and the unit of each process, if they are known.
func addOwners(root procowner.Root, list []procowner.GPUProcess) {
	known := make([]procowner.Process, 0, len(list))
	for _, p := range list {
		known = append(known, root.Process(p.PID))
	}
	root.NamePods(known)
	for i, p := range known {
		o := &list[i]
		o.Command, o.Namespace, o.Pod, o.PodUID, o.Unit = p.Command, p.Pod.Namespace, p.Pod.Name, p.Owner.Pod, p.Owner.Unit
		if p.Owner.Pod == "" {
			o.Container = p.Owner.Container
		}
	}
}
