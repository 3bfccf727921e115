package wire

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/resource"
)

// FuzzReadPreferred holds our decoder against the generated one: the same
// requests cannot be read, and the answers to the others are the same.
func FuzzReadPreferred(f *testing.F) {
	res := resource.Resource{Devices: append(devices(3, 1), devices(6, 12)[3:]...)}
	whole, shared := res.Devices[0].ID(0), res.Devices[4].ID(11)
	for _, m := range []*pluginapi.PreferredAllocationRequest{
		{},
		{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{}}},
		{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: []string{whole, "GPU-b::12", shared, ""}, MustIncludeDeviceIDs: []string{shared}, AllocationSize: 3},
			{AvailableDeviceIDs: []string{"ü"}, AllocationSize: 300},
		}},
		{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: []string{whole}, AllocationSize: -1}}},
		{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{MustIncludeDeviceIDs: []string{whole}, AllocationSize: 1}}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(data, 0x12, 0x00)) // a field that is not known
	}
	f.Add([]byte{0x0a, 0x03, 0x0a, 0x01, 0xff}) // no UTF-8
	f.Add([]byte{0x0a, 0x7f})                   // cut short
	a := allocate.New(res, allocate.Options{})
	f.Fuzz(func(t *testing.T, data []byte) {
		want, got := &PreferredRequest{allocator: a}, &PreferredRequest{allocator: a}
		wantErr := want.readAny(func(m any) error { return proto.Unmarshal(data, m.(proto.Message)) })
		gotErr := NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, got)
		if (gotErr != nil) != (wantErr != nil) {
			t.Fatalf("error %v, want %v", gotErr, wantErr)
		}
		if wantErr != nil {
			return
		}
		if diff := cmp.Diff(answers(want), answers(got)); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
}

// answer is the answer for one container.
type answer struct {
	IDs []string
	Err string
}

func answers(p *PreferredRequest) []answer {
	var out []answer
	for _, c := range p.containers {
		ids, err := c.devices.Preferred(c.must, c.size)
		a := answer{IDs: ids}
		if err != nil {
			a.Err = err.Error()
		}
		out = append(out, a)
	}
	return out
}

// BenchmarkReadPreferred reads a request that names all of 11,200 devices, in no
// order, in the parts in which it comes by a socket.
func BenchmarkReadPreferred(b *testing.B) {
	res := resource.Resource{Devices: devices(112, 100)}
	var ids []string
	for _, d := range res.Devices {
		for n := range d.Replicas {
			ids = append(ids, d.ID(n))
		}
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a measurement that can be repeated
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	wire, err := proto.Marshal(&pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: ids, AllocationSize: 8}},
	})
	if err != nil {
		b.Fatal(err)
	}
	var data mem.BufferSlice
	for part := range slices.Chunk(wire, 16<<10) {
		data = append(data, mem.SliceBuffer(part))
	}
	a, c := allocate.New(res, allocate.Options{}), NewCodec()
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Unmarshal(data, &PreferredRequest{allocator: a}); err != nil {
			b.Fatal(err)
		}
	}
}
