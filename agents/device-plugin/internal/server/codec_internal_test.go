package server

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// FuzzDecodePreferred holds our decoder against the generated one.
func FuzzDecodePreferred(f *testing.F) {
	for _, m := range []*pluginapi.PreferredAllocationRequest{
		{},
		{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{}}},
		{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: []string{"GPU-a", "GPU-b::12", ""}, MustIncludeDeviceIDs: []string{"GPU-b::12"}, AllocationSize: 300},
			{AvailableDeviceIDs: []string{"ü"}, AllocationSize: -1},
		}},
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
	f.Fuzz(func(t *testing.T, data []byte) {
		var want, got pluginapi.PreferredAllocationRequest
		wantErr := proto.Unmarshal(data, &want)
		gotErr := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &got)
		if (gotErr != nil) != (wantErr != nil) {
			t.Fatalf("error %v, want %v", gotErr, wantErr)
		}
		if wantErr == nil && !proto.Equal(&want, &got) {
			t.Errorf("decoded %v, want %v", &got, &want)
		}
	})
}
