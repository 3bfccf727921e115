package server

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec is that of Protocol Buffers, without the generated types for the two
// messages that have an entry for each device: thousands on a node that shares
// its GPUs.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal encodes a message. A list has the form in which it is sent already.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if l, ok := v.(list); ok {
		return l.wire, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal decodes a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	p, ok := v.(*preferredRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	if p.read(buf.ReadOnlyData()) {
		return nil
	}
	// It is not as the kubelet writes it; the generated code knows more.
	return p.readAny(func(m any) error { return c.CodecV2.Unmarshal(data, m) })
}
