package reconcile

import "sync/atomic"

// Status is the result of the last attempt: nil for a success, or else why it failed or why
// something is not ready. The zero Status is a success. It is safe for concurrent use.
type Status struct{ err atomic.Pointer[error] }

// NewStatus returns a Status with a first reason.
func NewStatus(err error) *Status {
	s := &Status{}
	s.err.Store(&err)
	return s
}

// Set records the result of an attempt. It reports whether the text of the error differs from
// the one before, also between an error and none: then it is worth a line in the log.
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
