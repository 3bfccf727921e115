package abi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// reply is what a process of the role "divide" answers to a command: what NVML
// answered, and what it told.
type reply struct {
	Ret nvml.Return
	// UUIDs are of the MIG devices that it sees, in the order of their indices.
	UUIDs []string
	// Memory, Processes and Instances are the answers for the whole GPU.
	Memory, Processes, Instances nvml.Return
	XID                          uint64
}

// divider is what the process works with: the first GPU, and what it made there.
type divider struct {
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
	var d divider
	var rets [3]nvml.Return
	d.device, rets[0] = lib.DeviceGetHandleByIndex(0)
	d.set, rets[1] = lib.EventSetCreate()
	rets[2] = d.device.RegisterEvents(nvml.EventTypeXidCriticalError, d.set)
	if rets != [3]nvml.Return{} {
		return fmt.Errorf("prepare: answers %v", rets)
	}
	commands := map[string]func() reply{
		"look": d.look, "create": d.create, "destroy": d.destroy, "use": d.use, "wait": d.wait,
		"mode": func() reply { _, ret := d.device.SetMigMode(nvml.DEVICE_MIG_ENABLE); return reply{Ret: ret} },
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := json.NewEncoder(os.Stdout).Encode(commands[lines.Text()]()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (d *divider) look() reply {
	var r reply
	count, _ := d.device.GetMaxMigDeviceCount()
	for i := range count {
		mig, ret := d.device.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue
		}
		uuid, _ := mig.GetUUID()
		r.UUIDs = append(r.UUIDs, uuid)
		d.mig = mig
	}
	_, r.Memory = d.device.GetMemoryInfo()
	_, r.Processes = d.device.GetComputeRunningProcesses()
	_, r.Instances = d.device.GetGpuInstanceById(0)
	return r
}

// use asks the MIG device that was seen last for its UUID.
func (d *divider) use() reply {
	_, ret := d.mig.GetUUID()
	return reply{Ret: ret}
}

// create makes a MIG device of one slice.
func (d *divider) create() reply {
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

func (d *divider) destroy() reply {
	ret := d.ci.Destroy()
	if ret == nvml.SUCCESS {
		ret = d.gi.Destroy()
	}
	return reply{Ret: ret}
}

func (d *divider) wait() reply {
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
