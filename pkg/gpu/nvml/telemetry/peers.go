package telemetry

import (
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

const symPeers = "nvmlDeviceGetP2PStatus"

// peers reads, if wanted, whether the GPU reaches the other GPUs of the node over NVLink. The
// result is kept as long as static values, because there are many pairs and they do not change.
func (r *reading) peers() error {
	s := r.sampler
	if !s.wants(PeerStatus) {
		return nil
	}
	if s.peers == nil {
		library := r.span.Library()
		count, err := library.DeviceCount()
		if err != nil {
			return r.checkCall(err, "nvmlDeviceGetCount_v2")
		}
		s.peers, s.alone = map[gpu.UUID]uint32{}, false
		for i := range count {
			if err := r.peer(library, i); err != nil {
				return err
			}
		}
	}
	if s.wants(PeerStatus) {
		r.sample.Peers = s.peers
	}
	return nil
}

// peer reads whether the GPU reaches the GPU at a position in NVML's list over NVLink.
func (r *reading) peer(library nvml.Library, position int) error {
	s := r.sampler
	other, err := library.Device(position)
	if err == nil && s.device.Is(other) {
		return nil
	}
	var id string
	if err == nil {
		id, err = other.UUID()
	}
	var status gonvml.GpuP2PStatus
	if err == nil {
		status, err = s.device.NVLinkP2P(other)
	}
	if err == nil {
		s.peers[gpu.UUID(id)] = uint32(status)
		return nil
	}
	s.alone = true
	if code := nvml.Code(err); code == gonvml.ERROR_GPU_IS_LOST || code == gonvml.ERROR_RESET_REQUIRED {
		return nil // the other GPU may be lost, and not this one
	}
	return r.checkCall(err, symPeers, PeerStatus)
}
