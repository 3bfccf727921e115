package inventory

import (
	"errors"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

// kindOf returns the class of an error of an observation, empty without one. read
// says that the GPUs could be read.
func kindOf(err error, read bool) health.Kind {
	switch {
	case err == nil:
		return ""
	case read:
		return health.KindUnprepared
	case errors.Is(err, gpu.ErrHangs):
		return health.KindHang
	case errors.Is(err, contract.ErrClaimed):
		return health.KindClaimed
	case errors.Is(err, gpu.ErrNoDriver):
		return health.KindDriver
	default:
		return health.KindFault
	}
}

// reportTrouble reports a trouble once, not after every observation.
func (v *Inventory) reportTrouble(before, err error) {
	switch {
	case v.state.Hang != nil: // hangs has reported that
	case err == nil:
		v.cfg.Recorder.Waiting("")
	case before != nil && before.Error() == err.Error():
	case v.kind == health.KindClaimed && v.state.Node != nil:
		v.cfg.Recorder.Waiting(v.kind)
		v.log.Info("nvml is claimed by another agent, advertising the gpus as before", "err", err)
	default:
		v.cfg.Recorder.Waiting(v.kind)
		v.report(Report{Kind: ReportWaiting, Reason: err.Error()})
		v.log.Warn("gpus cannot be advertised, waiting", "err", err)
	}
}
