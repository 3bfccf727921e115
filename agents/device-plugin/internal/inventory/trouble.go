package inventory

import (
	"errors"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// kindOf returns the class of the error of an observation, or "" for nil. read is set if
// the GPUs could be read.
func kindOf(err error, read bool) cause.Code {
	switch {
	case err == nil:
		return ""
	case read:
		return cause.DeviceUnprepared
	case errors.Is(err, gpu.ErrHangs):
		return cause.DeviceHang
	case errors.Is(err, contract.ErrClaimed):
		return cause.DeviceClaimed
	case errors.Is(err, gpu.ErrNoDriver):
		return cause.DeviceDriver
	default:
		return cause.DeviceFault
	}
}

// reportTrouble reports the error of an observation once, not after every observation.
func (v *Inventory) reportTrouble(before, err error) {
	switch {
	case v.state.Hang != nil: // handleHang has reported that
	case err == nil:
		v.cfg.Recorder.Waiting("")
	case before != nil && before.Error() == err.Error():
	case v.kind == cause.DeviceClaimed && v.state.Node != nil:
		v.cfg.Recorder.Waiting(v.kind)
		v.log.Info("nvml is claimed by another agent, advertising the gpus as before", "err", err)
	default:
		v.cfg.Recorder.Waiting(v.kind)
		v.report(Report{Kind: cause.GPUsNotOffered, Cause: v.kind, Reason: err.Error()})
		v.log.Warn("gpus cannot be advertised, waiting", "err", err)
	}
}
