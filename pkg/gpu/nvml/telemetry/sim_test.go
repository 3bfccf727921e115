package telemetry_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/reader"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/gpu/simtest"
)

// rig reads the first GPU of a simulated node, through the C ABI.
type rig struct {
	t       *testing.T
	node    *simtest.Node
	session *nvml.Session
	reader  *reader.Reader
	sampler *telemetry.Sampler
}

// newRig creates a node with one GPU, and a sampler of it that wants fields.
func newRig(t *testing.T, model string, fields ...telemetry.Field) *rig {
	t.Helper()
	return newRigOf(t, simtest.New(t, "--gpus=1", "--model="+model), fields...)
}

// newRigOf returns a sampler of the first GPU of a node.
func newRigOf(t *testing.T, n *simtest.Node, fields ...telemetry.Field) *rig {
	t.Helper()
	t.Setenv("GPU_SIM_STATE", filepath.Join(n.Root, "state"))
	t.Setenv("GPU_SIM_DEV", filepath.Join(n.Root, "dev"))
	proc := driverproc.Root(filepath.Join(n.Root, "proc"))
	session, err := nvml.New(nvml.Config{LibraryPath: filepath.Join(n.Bin, "lib", "libnvidia-ml.so.1"), Proc: proc})
	assert.NilError(t, err)
	r := &rig{t: t, node: n, session: session, reader: reader.New(reader.Config{Session: session, Proc: proc, SysRoot: filepath.Join(n.Root, "sys")})}
	t.Cleanup(func() {
		if err := r.reader.Close(); err != nil {
			t.Error(err)
		}
	})
	r.sampler = telemetry.New(telemetry.Config{Session: session, GPU: r.gpu().UUID, Fields: fields})
	return r
}

// gpu returns the GPU as it is now.
func (r *rig) gpu() gpu.GPU {
	r.t.Helper()
	node, err := r.reader.Snapshot(r.t.Context())
	assert.NilError(r.t, err)
	return node.GPUs[0]
}

// sample reads the GPU.
func (r *rig) sample(processes bool) telemetry.Sample {
	r.t.Helper()
	s, err := r.sampler.Sample(r.t.Context(), telemetry.Task{GPU: r.gpu(), Seen: time.Now(), Processes: processes})
	assert.NilError(r.t, err)
	return s
}

// every are all fields that have a source.
func every() []telemetry.Field {
	var out []telemetry.Field
	for f := range telemetry.Field(30_000) {
		if _, ok := telemetry.SourceOf(f); ok {
			out = append(out, f)
		}
	}
	return out
}

func TestValues(t *testing.T) {
	r := newRig(t, "h100-80", every()...)
	r.node.Run("set", "0.temperature=61", "0.memory-temperature=77", "0.power=300500", "0.clock-sm=1755", "0.utilization-gpu=40", "0.utilization-memory=11",
		"0.utilization-encoder=5", "0.utilization-decoder=6", "0.pcie-replays=3", "0.ecc-volatile-dram-uncorrected=2", "0.remap-uncorrected=1")
	got := r.sample(false).GPU
	for f, want := range map[telemetry.Field]float64{
		telemetry.DCGM_FI_DEV_GPU_TEMP_CELSIUS: 61, telemetry.DCGM_FI_DEV_MEMORY_TEMP_CELSIUS: 77, 157: 300.5, telemetry.DCGM_FI_DEV_SM_CLOCK: 1755, telemetry.DCGM_FI_DEV_GPU_UTIL: 40, 204: 11,
		206: 5, 207: 6, 202: 3, 311: 2, 393: 1, telemetry.DCGM_FI_DEV_FB_TOTAL: 81559, telemetry.DCGM_FI_DEV_FB_CAPACITY_BYTES: 81559 << 20,
		telemetry.DCGM_FI_DEV_NVML_INDEX: 0, telemetry.DCGM_FI_DEV_GPU_MINOR_NUMBER: 0, telemetry.DCGM_FI_SYSTEM_GPU_QUANTITY: 1,
		telemetry.DCGM_FI_CUDA_GPU_COMPUTE_CAPABILITY: 9 << 16, telemetry.DCGM_FI_DEV_ECC_MODE: 1, telemetry.DCGM_FI_DEV_GPU_COMPUTE_MODE: 0,
	} {
		if got[f] != want {
			t.Errorf("field %d is %g, want %g", f, got[f], want)
		}
	}
	if v, ok := got[telemetry.DCGM_FI_DEV_GPU_MINOR_NUMBER]; !ok || v != 0 {
		t.Errorf("minor number %g %t", v, ok)
	}
	if v := got[telemetry.DCGM_FI_CUDA_DRIVER_VERSION]; v < 12_000 || math.Mod(v, 100) != 0 {
		t.Errorf("CUDA %g, want the major version in the thousands and the minor one in the hundreds", v)
	}
	if _, ok := got[telemetry.DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL]; ok {
		t.Error("a rate after one reading")
	}
}

// Each value has a place: it is there, or the GPU does not have it and the reason is said.
func TestNothingIsLeftOut(t *testing.T) {
	for _, model := range []string{"h100-80", "a100-80", "l4", "b200"} {
		t.Run(model, func(t *testing.T) {
			r := newRig(t, model, every()...)
			r.sample(false)
			<-time.After(150 * time.Millisecond)
			s := r.sample(false)
			for _, f := range every() {
				_, value := s.GPU[f]
				_, text := s.Texts[f]
				reason, absent := s.Absent[f]
				if there := value || text; there == absent {
					t.Errorf("field %d: there %t, absent %t (%s)", f, there, absent, reason)
				}
			}
			if len(s.Failed) > 0 {
				t.Errorf("failed: %v", s.Failed)
			}
		})
	}
}

func TestCountersAndGPM(t *testing.T) {
	r := newRig(t, "h100-80", every()...)
	r.node.Run("set", "0.nvlink-tx=4096000", "0.nvlink-rx=4096000", "0.pcie-tx=1000000", "0.utilization-gpu=50", "0.sm-active=80", "0.tensor-active=25")
	before := r.sample(false)
	<-time.After(300 * time.Millisecond)
	after := r.sample(false)
	if !before.Begun || after.Begun {
		t.Errorf("something is measured from the first reading on: %t, from the second: %t", before.Begun, after.Begun)
	}
	took := after.At.Sub(before.At).Seconds()
	for f, rate := range map[telemetry.Field]float64{telemetry.NVLinkTxBytes: 4_096_000, telemetry.PCIeTxBytes: 1_000_000} {
		if got := (after.GPU[f] - before.GPU[f]) / took; got < 0.5*rate || got > 1.5*rate {
			t.Errorf("counter %d rises by %g a second, want %g", f, got, rate)
		}
	}
	if got := after.GPU[telemetry.DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL]; got < 4 || got > 12 {
		t.Errorf("the NVLink bandwidth is %g MB/s, want 8", got)
	}
	if energy := after.GPU[telemetry.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION]; energy <= before.GPU[telemetry.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION] {
		t.Errorf("the energy is %g after %g", energy, before.GPU[telemetry.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION])
	}
	for f, want := range map[telemetry.Field]float64{telemetry.DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO: 0.5, 1002: 0.8, 1004: 0.25} {
		if got := after.GPU[f]; got < want-0.02 || got > want+0.02 {
			t.Errorf("field %d is %g, want %g", f, got, want)
		}
	}
}

func TestGPUInstances(t *testing.T) {
	r := newRig(t, "h100-80", telemetry.DCGM_FI_DEV_FB_TOTAL, telemetry.DCGM_FI_DEV_GPU_UTIL, telemetry.DCGM_FI_DEV_GPU_TEMP_CELSIUS, telemetry.DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO)
	if s := r.sample(false); len(s.Instances) > 0 || s.GPU[telemetry.DCGM_FI_DEV_FB_TOTAL] == 0 {
		t.Errorf("an undivided GPU: %+v", s)
	}
	r.node.Run("mig mode", "0", "on")
	r.node.Run("mig create", "0", "3g.40gb", "1g.10gb")
	r.sample(false)
	<-time.After(150 * time.Millisecond)
	s := r.sample(false)
	if len(s.Instances) != 2 {
		t.Fatalf("instances %v, want two", slices.Collect(maps.Keys(s.Instances)))
	}
	for id, v := range s.Instances {
		if _, ok := v[telemetry.DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO]; !ok || v[telemetry.DCGM_FI_DEV_FB_TOTAL] == 0 {
			t.Errorf("instance %d: %v", id, v)
		}
	}
	if _, ok := s.GPU[telemetry.DCGM_FI_DEV_GPU_TEMP_CELSIUS]; !ok || s.Absent[telemetry.DCGM_FI_DEV_GPU_UTIL] == "" {
		t.Errorf("the whole GPU: %v, absent %v", s.GPU, s.Absent)
	}
	r.node.Run("mig destroy", "0")
	r.node.Run("mig mode", "0", "off")
	if s := r.sample(false); len(s.Instances) > 0 || s.Absent[telemetry.DCGM_FI_DEV_GPU_UTIL] != "" {
		t.Errorf("undivided again: %+v", s)
	}
}

// The handles of MIG devices are kept until the GPU is divided anew, or until they fail.
func TestHandlesOfMIGDevices(t *testing.T) {
	r := newRig(t, "h100-80", telemetry.DCGM_FI_DEV_FB_TOTAL)
	r.node.Run("mig mode", "0", "on")
	r.node.Run("mig create", "0", "3g.40gb", "1g.10gb")
	const lookUp = "nvmlDeviceGetMigDeviceHandleByIndex"
	task := telemetry.Task{GPU: r.gpu(), Seen: time.Now()}
	read := func(want int) telemetry.Sample {
		t.Helper()
		r.node.Calls()
		s, err := r.sampler.Sample(t.Context(), task)
		assert.NilError(t, err)
		if got := r.node.Calls()[lookUp]; got != want {
			t.Errorf("%d handles are looked up, want %d", got, want)
		}
		for id, v := range s.Instances {
			if v[telemetry.DCGM_FI_DEV_FB_TOTAL] == 0 {
				t.Errorf("GPU instance %d has no memory", id)
			}
		}
		if len(s.Failed) > 0 || len(s.Instances) != 2 {
			t.Errorf("failed: %v, instances %v", s.Failed, s.Instances)
		}
		return s
	}
	read(2)
	read(0)
	task.Seen = task.Seen.Add(time.Second)
	read(2)
	// Divided in the same way again: the MIG devices are others, and nobody has said so yet.
	r.node.Run("mig destroy", "0")
	r.node.Run("mig create", "0", "3g.40gb", "1g.10gb")
	read(2)
	read(0)
}

// TestShiftedMIGDevices gives MIG devices other indices than NVML's, as after a change of the GPU's MIG devices. Each
// GPU instance has the values of its own device.
func TestShiftedMIGDevices(t *testing.T) {
	r := newRig(t, "h100-80", telemetry.DCGM_FI_DEV_FB_TOTAL)
	r.node.Run("mig mode", "0", "on")
	r.node.Run("mig create", "0", "3g.40gb", "1g.10gb")
	g := r.gpu()
	want, err := r.sampler.Sample(t.Context(), telemetry.Task{GPU: g, Seen: time.Now()})
	assert.NilError(t, err)
	devices := g.MIG.Devices
	devices[0].Index, devices[1].Index = devices[1].Index, 5
	devices[0].Shifted, devices[1].Shifted = true, true
	got, err := r.sampler.Sample(t.Context(), telemetry.Task{GPU: g, Seen: time.Now().Add(time.Second)})
	assert.NilError(t, err)
	for id, v := range want.Instances {
		if now := got.Instances[id][telemetry.DCGM_FI_DEV_FB_TOTAL]; now != v[telemetry.DCGM_FI_DEV_FB_TOTAL] || now == 0 {
			t.Errorf("GPU instance %d has %g MiB, want %g", id, now, v[telemetry.DCGM_FI_DEV_FB_TOTAL])
		}
	}
}

func TestPeers(t *testing.T) {
	r := newRigOf(t, simtest.New(t, "--gpus=3", "--model=h100-80"), telemetry.DCGM_FI_DEV_GPU_TEMP_CELSIUS, telemetry.PeerStatus)
	read := func(task telemetry.Task, calls int, want map[gpu.UUID]uint32) {
		t.Helper()
		r.node.Calls()
		s, err := r.sampler.Sample(t.Context(), task)
		assert.NilError(t, err)
		if !maps.Equal(s.Peers, want) || s.GPU[telemetry.DCGM_FI_DEV_GPU_TEMP_CELSIUS] == 0 {
			t.Errorf("peers %v, want %v, of %v", s.Peers, want, s.GPU)
		}
		if got := r.node.Calls()["nvmlDeviceGetP2PStatus"]; got != calls {
			t.Errorf("%d calls, want %d", got, calls)
		}
	}
	node, err := r.reader.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one, two := node.GPUs[1].UUID, node.GPUs[2].UUID
	task := telemetry.Task{GPU: node.GPUs[0], Seen: time.Now()}
	read(task, 2, map[gpu.UUID]uint32{one: 0, two: 0})
	read(task, 0, map[gpu.UUID]uint32{one: 0, two: 0})
	r.node.Run("set", "1.nvlinks=0")
	task.Seen = task.Seen.Add(time.Second)
	read(task, 2, map[gpu.UUID]uint32{one: 5, two: 0})
	// Another GPU that is lost is not this one.
	r.node.Run("lose", "2")
	task.Seen = task.Seen.Add(time.Second)
	read(task, 1, map[gpu.UUID]uint32{one: 5})
	r.node.Run("set", "nvmlDeviceGetP2PStatus.return=3")
	task.Seen = task.Seen.Add(time.Second)
	read(task, 1, nil)
	read(task, 0, nil)
}

// DCGM numbers the fields of a link not by the link.
func TestErrorsOfLinks(t *testing.T) {
	r := newRig(t, "h100-80", every()...)
	set := []string{"set"}
	for _, kind := range []string{"crc-flit", "crc-data", "replay", "recovery"} {
		for i, link := range []int{0, 5, 6, 11, 12, 14, 15, 17} {
			set = append(set, fmt.Sprintf("0.nvlink-%s-errors=%d:%d", kind, link, 1<<i))
		}
	}
	r.node.Run(set...)
	s := r.sample(false)
	for kind, fields := range map[string][]telemetry.Field{
		"crc-flit": {400, 405, 451, 456, 406, 408, 481, 483},
		"crc-data": {410, 415, 457, 462, 416, 418, 484, 486},
		"replay":   {420, 425, 463, 468, 426, 428, 487, 489},
		"recovery": {430, 435, 469, 474, 436, 438, 491, 493},
	} {
		for i, f := range fields {
			if got := s.GPU[f]; got != float64(int(1)<<i) {
				t.Errorf("%s: field %d is %g, want %d", kind, f, got, 1<<i)
			}
		}
	}
	for f, want := range map[telemetry.Field]float64{409: 255, 419: 255, 429: 255, 439: 255, 497: 255, 498: 255, 499: 255} {
		if got := s.GPU[f]; got != want {
			t.Errorf("field %d is %g, want %g", f, got, want)
		}
	}
}

func TestErrorsOfNVLink5(t *testing.T) {
	r := newRig(t, "b200", every()...)
	r.node.Run("set", "0.nvlink-crc-data-errors=2:3", "0.nvlink-recovery-errors=4:5")
	s := r.sample(false)
	if s.GPU[1206] != 3 || s.GPU[1213] != 5 || s.Absent[499] == "" {
		t.Errorf("%g errors, %g recoveries, absent %v", s.GPU[1206], s.GPU[1213], s.Absent)
	}
}

// What fails costs its value, and is not asked for again if the GPU does not support it.
func TestWhatFailsCostsItsValue(t *testing.T) {
	r := newRig(t, "h100-80", telemetry.DCGM_FI_DEV_GPU_TEMP_CELSIUS, telemetry.DCGM_FI_DEV_BOARD_POWER_WATTS, telemetry.DCGM_FI_DEV_SM_CLOCK)
	r.node.Run("set", "nvmlDeviceGetPowerUsage.return=3", "nvmlDeviceGetClockInfo.return=999")
	s := r.sample(false)
	if s.Absent[telemetry.DCGM_FI_DEV_BOARD_POWER_WATTS] == "" || s.Failed["nvmlDeviceGetClockInfo"] != 1 || len(s.GPU) != 1 {
		t.Errorf("%+v", s)
	}
	r.node.Calls()
	r.node.Run("set", "nvmlDeviceGetPowerUsage.return=0", "nvmlDeviceGetClockInfo.return=0")
	s = r.sample(false)
	if calls := r.node.Calls(); calls["nvmlDeviceGetPowerUsage"] != 0 || s.GPU[telemetry.DCGM_FI_DEV_SM_CLOCK] == 0 {
		t.Errorf("%v: %+v", calls, s)
	}
	r.node.Run("lose", "0")
	if s, err := r.sampler.Sample(r.t.Context(), telemetry.Task{GPU: r.gpu()}); err == nil {
		t.Errorf("a lost GPU has %+v", s)
	}
}

// What fails for a while, whichever symbol it is and whatever it returns, is there again 20 s later.
func TestWhatFailsForAWhileHeals(t *testing.T) {
	r := newRigOf(t, simtest.New(t, "--gpus=2", "--model=h100-80"))
	known, fields := r.gpu(), append(every(), telemetry.PeerStatus)
	r.node.Run("proc add", "--sm", "50", "--memory", "100", "0")
	r.node.Calls()
	want := r.patient(known, fields).later(false)
	wantGPM := r.patient(known, fields).later(true)
	symbols := r.node.Calls()
	delete(symbols, "nvmlErrorString")
	if len(symbols) < 40 || len(want.peers) != 1 || want.processes != 1 {
		t.Fatalf("a sample calls only %d symbols, and has the peers %v and %d processes", len(symbols), want.peers, want.processes)
	}
	if len(wantGPM.fields) <= len(want.fields) {
		t.Fatalf("there are %d values with those of GPM, and %d without", len(wantGPM.fields), len(want.fields))
	}
	for _, symbol := range slices.Sorted(maps.Keys(symbols)) {
		gpm := strings.HasPrefix(symbol, "nvmlGpm")
		want := want
		if gpm {
			want = wantGPM
		}
		for _, code := range []int{1, 4, 10, 15, 16, 999} {
			p := r.patient(known, fields)
			r.node.Run("set", fmt.Sprintf("%s.return=%d", symbol, code))
			_, _ = p.sampler.Sample(t.Context(), p.task)
			r.node.Run("set", symbol+".return=0")
			if got := p.later(gpm); !reflect.DeepEqual(got, want) {
				t.Errorf("20 s after %s returned %d there are %d values, peers %v, %d processes and %d absent values; want %d, %v, %d, %d",
					symbol, code, len(got.fields), got.peers, got.processes, len(got.absent), len(want.fields), want.peers, want.processes, len(want.absent))
			}
		}
	}
}

// patient is a sampler of all values, for which time passes as the test says.
type patient struct {
	t       *testing.T
	sampler *telemetry.Sampler
	task    telemetry.Task
	passed  time.Duration
}

func (r *rig) patient(known gpu.GPU, fields []telemetry.Field) *patient {
	p := &patient{t: r.t, task: telemetry.Task{GPU: known, Seen: time.Unix(1, 0), Processes: true}}
	now := func() time.Time { return time.Now().Add(p.passed) }
	p.sampler = telemetry.New(telemetry.Config{Session: r.session, GPU: known.UUID, Fields: fields, Now: now})
	return p
}

// had is what a sample has values of.
type had struct {
	fields, absent []telemetry.Field
	peers          []gpu.UUID
	processes      int
}

// gpmRefresh is how often the GPU refreshes the counters of GPM: of two samples within that time, no
// value of GPM comes.
const gpmRefresh = 100 * time.Millisecond

// later returns what a sample has 20 s later, with or without the values of GPM. These need two samples,
// and time between them that really passes.
func (p *patient) later(gpm bool) had {
	p.t.Helper()
	var s telemetry.Sample
	for _, pause := range []time.Duration{20 * time.Second, time.Second} {
		p.passed += pause
		var err error
		if s, err = p.sampler.Sample(p.t.Context(), p.task); err != nil {
			p.t.Fatal(err)
		}
		if gpm {
			<-time.After(gpmRefresh + 10*time.Millisecond)
		}
	}
	only := func(f telemetry.Field) bool { source, _ := telemetry.SourceOf(f); return source.GPM && !gpm }
	return had{
		fields: slices.DeleteFunc(slices.Concat(slices.Sorted(maps.Keys(s.GPU)), slices.Sorted(maps.Keys(s.Texts))), only),
		absent: slices.DeleteFunc(slices.Sorted(maps.Keys(s.Absent)), only), peers: slices.Sorted(maps.Keys(s.Peers)),
		processes: len(s.Processes),
	}
}

func TestProcessesOfAGPU(t *testing.T) {
	r := newRig(t, "h100-80", telemetry.DCGM_FI_DEV_GPU_TEMP_CELSIUS)
	r.node.Run("proc add", "--sm", "50", "--memory", "100", "0")
	if s := r.sample(true); len(s.Processes) != 1 || s.Processes[0].Memory != 100<<20 || s.Processes[0].Instance != gpu.NoInstance {
		t.Fatalf("%+v", s.Processes)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if s := r.sample(true); s.Processes[0].SMSeconds > 0.2 {
			return
		}
		<-time.After(200 * time.Millisecond)
	}
	t.Error("the process has not been busy")
}
