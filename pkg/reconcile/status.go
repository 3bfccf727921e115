package reconcile

import "sync/atomic"

// Status is the result of the last attempt: nil for a success, otherwise the reason for a failure
// or for not being ready. The zero Status is a success. It is safe for concurrent use.
type Status struct{ err atomic.Pointer[error] }

// NewStatus returns a Status with a first reason.
func NewStatus(err error) *Status {
	s := &Status{}
	s.err.Store(&err)
	return s
}

// Set records the result of an attempt. It reports whether the text of the error differs from the
// previous one, including a change between an error and nil. Callers then log it.
func (s *Status) Set(err error) (changed bool) { return errorText(s.err.Swap(&err)) != errorText(&err) }

// Err returns the last result.
func (s *Status) Err() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

func errorText(err *error) string {
	if err == nil || *err == nil {
		return ""
	}
	return (*err).Error()
}
