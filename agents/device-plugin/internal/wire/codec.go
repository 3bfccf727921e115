// Package wire has the messages of the device plugin API that name each device: the
// response of ListAndWatch and the request of GetPreferredAllocation. There are
// thousands of names on a node that shares its GPUs, so neither message takes the
// detour over the generated types.
package wire

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Codec is the codec of Protocol Buffers that also takes a List and a
// *PreferredRequest.
type Codec struct{ encoding.CodecV2 }

// NewCodec returns a Codec.
func NewCodec() Codec { return Codec{encoding.GetCodecV2(proto.Name)} }

// Marshal encodes a message. A List is encoded already.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if l, ok := v.(List); ok {
		return l.encoded, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal decodes a message.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	p, ok := v.(*PreferredRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if p.read(buf.ReadOnlyData()) {
		return nil
	}
	// The generated code decodes, or rejects, whatever the kubelet does not send.
	return p.readAny(func(m any) error { return c.CodecV2.Unmarshal(data, m) })
}
