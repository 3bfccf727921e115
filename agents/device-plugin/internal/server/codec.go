package server

import (
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// codec is that of Protocol Buffers. A request for preferred devices names every
// free one: thousands on a node that shares its GPUs, and the kubelet waits for
// the answer before it starts the pod. The generated code makes a string of each
// name; here all are parts of one.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal decodes a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	req, ok := v.(*pluginapi.PreferredAllocationRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if !decodePreferred(buf.ReadOnlyData(), req) {
		// It is not as the kubelet writes it; the generated code knows more.
		return c.CodecV2.Unmarshal(data, v)
	}
	return nil
}

// The numbers of the fields of PreferredAllocationRequest and of
// ContainerPreferredAllocationRequest (k8s.io/kubelet, deviceplugin v1beta1).
const (
	fieldRequests  = 1
	fieldAvailable = 1
	fieldMust      = 2
	fieldSize      = 3
)

// decodePreferred fills req, and returns false without having touched it for
// data that holds anything else than its fields.
func decodePreferred(data []byte, req *pluginapi.PreferredAllocationRequest) bool {
	var out []*pluginapi.ContainerPreferredAllocationRequest
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 || number != fieldRequests || kind != protowire.BytesType {
			return false
		}
		body, m := protowire.ConsumeBytes(data[n:])
		if m < 0 {
			return false
		}
		c, ok := decodeContainer(body)
		if !ok {
			return false
		}
		out, data = append(out, c), data[n+m:]
	}
	req.ContainerRequests = out
	return true
}

func decodeContainer(data []byte) (*pluginapi.ContainerPreferredAllocationRequest, bool) {
	c := &pluginapi.ContainerPreferredAllocationRequest{}
	text := string(data)
	for at := 0; at < len(data); {
		number, kind, n := protowire.ConsumeTag(data[at:])
		if n < 0 {
			return nil, false
		}
		at += n
		switch {
		case number == fieldSize && kind == protowire.VarintType:
			size, n := protowire.ConsumeVarint(data[at:])
			if n < 0 {
				return nil, false
			}
			c.AllocationSize = int32(size) //nolint:gosec // as the wire format has negative numbers
			at += n
		case (number == fieldAvailable || number == fieldMust) && kind == protowire.BytesType:
			name, n := protowire.ConsumeBytes(data[at:])
			if n < 0 || !utf8.Valid(name) {
				return nil, false
			}
			id := text[at+n-len(name) : at+n]
			if number == fieldMust {
				c.MustIncludeDeviceIDs = append(c.MustIncludeDeviceIDs, id)
			} else {
				if c.AvailableDeviceIDs == nil {
					// The names are about as long as each other.
					c.AvailableDeviceIDs = make([]string, 0, len(data)/(n+1)+1)
				}
				c.AvailableDeviceIDs = append(c.AvailableDeviceIDs, id)
			}
			at += n
		default:
			return nil, false
		}
	}
	return c, true
}
