package abi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// reply is what a process of the role "divide" answers to a command: what NVML
// answered, and what it reported.
type reply struct {
	Ret nvml.Return
	// UUIDs are of the MIG devices that it sees, Indices what NVML calls them.
	UUIDs   []string
	Indices []int
	// Memory, Processes and Instances are the answers for the whole GPU.
	Memory, Processes, Instances nvml.Return
	XID                          uint64
}

// divider is what the process works with: the first GPU, and what it made there.
type divider struct {
	lib         nvml.Interface
	device, mig nvml.Device
	gi          nvml.GpuInstance
	ci          nvml.ComputeInstance
	set         nvml.EventSet
}

// divideRole does what its stdin says, a command a line, and answers each.
func divideRole() error {
	lib := nvml.New(nvml.WithLibraryPath(os.Getenv(libraryKey)))
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return ret
	}
	defer lib.Shutdown()
	d := divider{lib: lib}
	var rets [3]nvml.Return
	d.device, rets[0] = lib.DeviceGetHandleByIndex(0)
	d.set, rets[1] = lib.EventSetCreate()
	rets[2] = d.device.RegisterEvents(nvml.EventTypeXidCriticalError, d.set)
	if rets != [3]nvml.Return{} {
		return fmt.Errorf("prepare: answers %v", rets)
	}
	commands := map[string]func(string) reply{
		"list": d.list, "create": d.create, "destroy": d.destroy, "use": d.use, "wait": d.wait,
		"find": d.find, "take": d.take, "mode": d.mode,
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command, argument, _ := strings.Cut(lines.Text(), " ")
		if err := json.NewEncoder(os.Stdout).Encode(commands[command](argument)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (d *divider) list(string) reply {
	var r reply
	count, _ := d.device.GetMaxMigDeviceCount()
	for i := range count {
		mig, ret := d.device.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		uuid, _ := mig.GetUUID()
		index, _ := mig.GetIndex()
		r.UUIDs, r.Indices = append(r.UUIDs, uuid), append(r.Indices, index)
		d.mig = mig
	}
	_, r.Memory = d.device.GetMemoryInfo()
	_, r.Processes = d.device.GetComputeRunningProcesses()
	_, r.Instances = d.device.GetGpuInstanceById(0)
	return r
}

// find looks a MIG device up by its UUID.
func (d *divider) find(uuid string) reply {
	_, ret := d.lib.DeviceGetHandleByUUID(uuid)
	return reply{Ret: ret}
}

// take tries to destroy what others made: the compute instance 0 of the GPU
// instance with a number, or that itself.
func (d *divider) take(argument string) reply {
	var what string
	var id int
	if n, err := fmt.Sscan(argument, &what, &id); n != 2 {
		return reply{Ret: nvml.ERROR_UNKNOWN, UUIDs: []string{err.Error()}}
	}
	gi, ret := d.device.GetGpuInstanceById(id)
	if ret != nvml.SUCCESS {
		return reply{Ret: nvml.ERROR_UNKNOWN}
	}
	ci, ret := gi.GetComputeInstanceById(0)
	switch {
	case ret != nvml.SUCCESS:
		return reply{Ret: nvml.ERROR_UNKNOWN}
	case what == "gi":
		return reply{Ret: gi.Destroy()}
	default:
		return reply{Ret: ci.Destroy()}
	}
}

func (d *divider) mode(string) reply {
	_, ret := d.device.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	return reply{Ret: ret}
}

// use asks the MIG device that was seen last for its UUID.
func (d *divider) use(string) reply {
	_, ret := d.mig.GetUUID()
	return reply{Ret: ret}
}

// create makes a MIG device of one slice.
func (d *divider) create(string) reply {
	info, ret := d.device.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	if ret == nvml.SUCCESS {
		d.gi, ret = d.device.CreateGpuInstance(&info)
	}
	if ret != nvml.SUCCESS {
		return reply{Ret: ret}
	}
	part, ret := d.gi.GetComputeInstanceProfileInfo(nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE, 0)
	if ret == nvml.SUCCESS {
		d.ci, ret = d.gi.CreateComputeInstance(&part)
	}
	return reply{Ret: ret}
}

func (d *divider) destroy(string) reply {
	ret := d.ci.Destroy()
	if ret == nvml.SUCCESS {
		ret = d.gi.Destroy()
	}
	return reply{Ret: ret}
}

func (d *divider) wait(string) reply {
	event, ret := d.set.Wait(0)
	return reply{Ret: ret, XID: event.EventData}
}

// other is another process of the node.
type other struct {
	stdin  io.Writer
	stdout *json.Decoder
}

func startOther(t *testing.T, cmd *exec.Cmd) other {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	mustDo(t, err)
	stdout, err := cmd.StdoutPipe()
	mustDo(t, err)
	mustDo(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the other process: %v", err)
		}
	})
	return other{stdin, json.NewDecoder(stdout)}
}

func (o other) ask(t *testing.T, command string) reply {
	t.Helper()
	_, err := fmt.Fprintln(o.stdin, command)
	mustDo(t, err)
	var r reply
	mustDo(t, o.stdout.Decode(&r))
	return r
}
