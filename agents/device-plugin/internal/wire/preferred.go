package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
)

// PreferredRequest is a decoded PreferredAllocationRequest. The names of available
// devices go to the Allocator as they are read, and are not kept.
type PreferredRequest struct {
	allocator  *allocate.Allocator
	containers []container
}

// NewPreferredRequest returns a request for devices of the Allocator, to be decoded by
// a Codec.
func NewPreferredRequest(a *allocate.Allocator) *PreferredRequest {
	return &PreferredRequest{allocator: a}
}

// Answer returns the devices that fit best together, for each container.
func (p *PreferredRequest) Answer() (*pluginapi.PreferredAllocationResponse, error) {
	resp := &pluginapi.PreferredAllocationResponse{}
	for _, c := range p.containers {
		ids, err := c.devices.Preferred(c.must, c.size)
		if err != nil {
			return nil, err
		}
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return resp, nil
}

// container is the request of one container.
type container struct {
	devices *allocate.Request
	must    []string
	size    int
}

// The numbers of the fields of PreferredAllocationRequest and of
// ContainerPreferredAllocationRequest (k8s.io/kubelet, deviceplugin v1beta1).
const (
	fieldRequests  = 1
	fieldAvailable = 1
	fieldMust      = 2
	fieldSize      = 3
)

// read decodes a message. It returns false for data that has anything but the fields
// of the message.
func (p *PreferredRequest) read(data []byte) bool {
	p.containers = nil
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 || number != fieldRequests || kind != protowire.BytesType {
			return false
		}
		body, m := protowire.ConsumeBytes(data[n:])
		if m < 0 {
			return false
		}
		c := container{devices: p.allocator.Request()}
		if !c.read(body) {
			return false
		}
		p.containers, data = append(p.containers, c), data[n+m:]
	}
	return true
}

func (c *container) read(data []byte) bool {
	for len(data) > 0 {
		// Nearly all fields are names of devices, with a length of one byte.
		if id, ok := shortName(data); ok {
			if !c.name(fieldAvailable, id) {
				return false
			}
			data = data[2+len(id):]
			continue
		}
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return false
		}
		data = data[n:]
		switch {
		case number == fieldSize && kind == protowire.VarintType:
			var size uint64
			size, n = protowire.ConsumeVarint(data)
			c.size = int(int32(size)) //nolint:gosec // as the wire format has negative numbers
		case (number == fieldAvailable || number == fieldMust) && kind == protowire.BytesType:
			var name []byte
			name, n = protowire.ConsumeBytes(data)
			if n < 0 || !c.name(number, name) {
				return false
			}
		default:
			return false
		}
		if n < 0 {
			return false
		}
		data = data[n:]
	}
	return true
}

// shortName returns the name of an available device at the beginning of data, if it
// has less than 128 bytes.
func shortName(data []byte) ([]byte, bool) {
	const tag = fieldAvailable<<3 | byte(protowire.BytesType)
	if len(data) < 2 || data[0] != tag || data[1] > 0x7f || len(data)-2 < int(data[1]) {
		return nil, false
	}
	return data[2 : 2+int(data[1])], true
}

// name adds the name of a device. It returns false for a name that is not UTF-8. A
// known name is.
func (c *container) name(field protowire.Number, id []byte) bool {
	if field == fieldAvailable {
		return c.devices.Available(id) || utf8.Valid(id)
	}
	c.must = append(c.must, string(id))
	return utf8.Valid(id)
}

// readAny adds what the generated code decodes.
func (p *PreferredRequest) readAny(decode func(any) error) error {
	p.containers = nil
	var req pluginapi.PreferredAllocationRequest
	if err := decode(&req); err != nil {
		return err
	}
	for _, r := range req.GetContainerRequests() {
		c := container{devices: p.allocator.Request(), must: r.GetMustIncludeDeviceIDs(), size: int(r.GetAllocationSize())}
		for _, id := range r.GetAvailableDeviceIDs() {
			c.devices.Available([]byte(id))
		}
		p.containers = append(p.containers, c)
	}
	return nil
}
