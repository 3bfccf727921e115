package kubelettest

import (
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// list is a list of devices as received. It is decoded when a test asks for it: a list of
// thousands takes milliseconds to decode, and a benchmark would measure the kubelet. Its
// fields are guarded by Kubelet.mu.
type list struct {
	wire    []byte
	at      time.Time
	devices []*pluginapi.Device
	read    bool
}

// update decodes the list, the first time.
func (l *list) update(resource string) (Update, error) {
	if !l.read {
		var m pluginapi.ListAndWatchResponse
		if err := proto.Unmarshal(l.wire, &m); err != nil {
			return Update{}, fmt.Errorf("read the list of %s: %w", resource, err)
		}
		l.devices, l.read = m.GetDevices(), true
	}
	return Update{Resource: resource, Devices: l.devices, At: l.at}, nil
}

// empty reports whether the list has no devices: then nothing is sent.
func (l *list) empty() bool { return len(l.wire) == 0 }

// wireCodec receives messages undecoded into a []byte, and sends those of protobuf.
type wireCodec struct{}

// inWire is the option of a stream for wireCodec.
func inWire() grpc.CallOption { return grpc.ForceCodecV2(wireCodec{}) }

// Name is that of the codec with which a kubelet speaks.
func (wireCodec) Name() string { return "proto" }

func (wireCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("send %T: it is no message of protobuf", v)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}

func (wireCodec) Unmarshal(data mem.BufferSlice, v any) error {
	to, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("receive into %T: it is not *[]byte", v)
	}
	*to = data.Materialize()
	return nil
}
