package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/index"
)

const (
	uuid0 = "GPU-00000000-1111-2222-3333-444444444444"
	uuid1 = "GPU-11111111-1111-2222-3333-444444444444"
	mig0  = "MIG-00000000-aaaa-bbbb-cccc-dddddddddddd"
)

// proc writes a /proc with three GPUs: one in MIG mode with three MIG devices, one with a
// minor that is not its index, and one that no program has used yet.
func proc(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		p := filepath.Join(dir, "driver", name)
		assert.NilError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		assert.NilError(t, os.WriteFile(p, []byte(text), 0o644))
	}
	for _, g := range []struct {
		id, uuid string
		minor    int
	}{{"0000:0b:00.0", uuid0, 0}, {"0000:1b:00.0", uuid1, 5}, {"0001:0b:00.0", "GPU-????????-????-????-????-????????????", 1}} {
		write("nvidia/gpus/"+g.id+"/information", fmt.Sprintf("Model: NVIDIA H100\nGPU UUID: %s\nDevice Minor: %d\n", g.uuid, g.minor))
	}
	for _, in := range []string{"gi1/ci0", "gi2/ci0", "gi2/ci1"} {
		write("nvidia/capabilities/gpu0/mig/"+in+"/access", "")
	}
	write("nvidia-caps/mig-minors", `config 1
monitor 2
gpu0/gi1/access 12
gpu0/gi1/ci0/access 13
gpu0/gi2/access 21
gpu0/gi2/ci0/access 22
gpu0/gi2/ci1/access 23
`)
	return dir
}

// specs is a node's CDI specs: device nodes by the name of a device.
type fakeSpecs map[string][]string

func (s fakeSpecs) DeviceNodes(name string) ([]string, error) {
	if nodes, ok := s[strings.ToUpper(name)]; ok {
		return nodes, nil
	}
	return nil, errors.New("there is no CDI spec")
}

func prepared() fakeSpecs {
	return fakeSpecs{
		strings.ToUpper(mig0): {"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap23"},
		"0:0":                 {"/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13", "/dev/nvidia0"},
		"1:0":                 {"/dev/nvidia5", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"},
	}
}

// An index is the index that the agents of the node use, also after a GPU has left the bus.
func TestChooseByTheIndexOfTheNode(t *testing.T) {
	gpus, err := GPUs(driverproc.Root(proc(t)))
	assert.NilError(t, err)
	dir := contract.Dir{Root: t.TempDir()}
	gone := gpu.GPU{UUID: "GPU-gone", PCI: gpu.PCI{BusID: "0000:01:00.0"}}
	agent := &gpu.Node{GPUs: []gpu.GPU{gone}}
	for i, g := range gpus {
		agent.GPUs = append(agent.GPUs, gpu.GPU{Index: i + 1, UUID: g.UUID, PCI: gpu.PCI{BusID: g.BusID}})
	}
	index.New(index.Config{Contract: dir, Writer: "agent"}).Apply(agent)
	pin(gpus, index.New(index.Config{Contract: dir, ReadOnly: true}))
	for name, want := range map[string]string{"1": gpus[0].BusID, "2": gpus[1].BusID, "3": gpus[2].BusID, "0": ""} {
		got, err := choose(gpus, prepared(), []string{name})
		if want == "" && err == nil || want != "" && (err != nil || got[0].BusID != want) {
			t.Errorf("GPU %s is %+v, %v, want %q", name, got, err, want)
		}
	}
}

func TestChoose(t *testing.T) {
	gpus, err := GPUs(driverproc.Root(proc(t)))
	assert.NilError(t, err)
	for name, tc := range map[string]struct {
		names []string
		// want has "index" of whole GPUs, and "index(caps)" of GPUs in parts.
		want string
		err  string
	}{
		"nothing":                         {nil, "", ""},
		"none":                            {[]string{"none"}, "", ""},
		"all":                             {[]string{"all"}, "0(13 22 23) 1 2", ""},
		"indexes in any order, repeated":  {[]string{"2", "1", "2"}, "1 2", ""},
		"a UUID in capital letters":       {[]string{strings.ToUpper(uuid1)}, "1", ""},
		"a PCI bus ID as NVML writes it":  {[]string{"00000000:1B:00.0"}, "1", ""},
		"a PCI bus ID as sysfs writes it": {[]string{"0001:0b:00.0"}, "2", ""},
		"a PCI bus ID without domain":     {[]string{"0b:00.0"}, "0(13 22 23)", ""},
		"a GPU in MIG mode":               {[]string{"0"}, "0(13 22 23)", ""},
		"a MIG device by UUID":            {[]string{strings.ToLower(mig0)}, "part 0(23)", ""},
		"a MIG device by its instances":   {[]string{"MIG-" + uuid0 + "/2/1"}, "part 0(23)", ""},
		"instances in small letters":      {[]string{strings.ToLower("MIG-" + uuid0 + "/1/0")}, "part 0(13)", ""},
		"instances that are gone":         {[]string{"MIG-" + uuid0 + "/7/0"}, "", "GPU 0000:0b:00.0 has no such instance"},
		"instances of no GPU":             {[]string{"MIG-GPU-22222222-1111-2222-3333-444444444444/1/0"}, "", "no GPU has this UUID"},
		"instances without a number":      {[]string{"MIG-" + uuid0 + "/1"}, "", "use the UUID that nvidia-smi -L prints"},
		"two MIG devices of a GPU":        {[]string{mig0, "0:0"}, "part 0(13 23)", ""},
		"a MIG device and its GPU":        {[]string{mig0, "0"}, "0(13 22 23)", ""},
		"an index that is too high":       {[]string{"3"}, "", `find device "3": none of the 3 GPUs of the node has this name`},
		"a UUID that is unknown":          {[]string{"GPU-22222222-1111-2222-3333-444444444444"}, "", "the UUID of GPU 0001:0b:00.0 is unknown until"},
		"a UUID cut short":                {[]string{"GPU-0000"}, "", "no GPU has this UUID"},
		"a PCI bus ID that is free":       {[]string{"0002:0b:00.0"}, "", "none of the 3 GPUs"},
		"a MIG device without spec":       {[]string{"0:7"}, "", "find MIG device 0:7: there is no CDI spec"},
		"a MIG device that is gone":       {[]string{"1:0"}, "", "an instance that no longer exists"},
		"a path":                          {[]string{"../0"}, "", "it is not an index, a UUID or a PCI bus ID"},
		"a flag":                          {[]string{"--pid=1"}, "", "it is not an index, a UUID or a PCI bus ID"},
		"question marks":                  {[]string{"GPU-????????-????-????-????-????????????"}, "", "no GPU has this UUID"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choose(gpus, prepared(), tc.names)
			if tc.err != "" {
				assert.ErrorContains(t, err, tc.err)
				return
			}
			assert.NilError(t, err)
			assert.Equal(t, show(got), tc.want)
		})
	}
}

func show(chosen []Chosen) string {
	var out []string
	for _, c := range chosen {
		s := fmt.Sprint(c.Index)
		if !c.Whole {
			s = "part " + s
		}
		var caps []string
		for _, in := range c.Instances {
			caps = append(caps, fmt.Sprint(in.ComputeInstanceCap))
		}
		if len(caps) > 0 {
			s += "(" + strings.Join(caps, " ") + ")"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestChooseOnANodeWithoutGPUs(t *testing.T) {
	_, err := choose(nil, prepared(), []string{"0"})
	assert.ErrorContains(t, err, "the node has no GPU that the NVIDIA driver uses")
	got, err := choose(nil, prepared(), []string{"all"})
	assert.NilError(t, err)
	assert.Equal(t, len(got), 0)
}

func TestGPUsWithAnInstanceThatTheDriverDoesNotList(t *testing.T) {
	dir := proc(t)
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "driver/nvidia-caps/mig-minors"), []byte("gpu0/gi1/access 12\n"), 0o644))
	_, err := GPUs(driverproc.Root(dir))
	assert.ErrorContains(t, err, "does not list gpu0/gi1/ci0")
}

func FuzzChoose(f *testing.F) {
	for _, s := range []string{"all", "0", uuid0, "0000:0b:00.0", "0:1", mig0, "0b:00.0"} {
		f.Add(s)
	}
	gpus := []GPU{{GPU: driverproc.GPU{BusID: "0000:0b:00.0", UUID: uuid0, Minor: 0}}}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := choose(gpus, fakeSpecs{}, []string{name})
		if err != nil && len(got) > 0 || len(got) > 1 {
			t.Errorf("%q gives %v, %v", name, got, err)
		}
	})
}
