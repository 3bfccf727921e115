package inventory

import "time"

// alarm rings at one time, and not twice for the same.
type alarm struct {
	timer *time.Timer
	at    time.Time
}

// newAlarm returns an alarm that is not set.
func newAlarm() *alarm {
	t := time.NewTimer(0)
	t.Stop()
	return &alarm{timer: t}
}

// set makes the alarm ring at the time, and never if there is none.
func (a *alarm) set(at time.Time, ok bool) {
	switch {
	case !ok:
		a.timer.Stop()
		a.at = time.Time{}
	case !at.Equal(a.at):
		a.timer.Reset(time.Until(at))
		a.at = at
	}
}

// rings is when the alarm rings.
func (a *alarm) rings() <-chan time.Time { return a.timer.C }

func (a *alarm) stop() { a.timer.Stop() }
