package inventory

import "time"

// alarm is a timer for a point in time. It rings once for each.
type alarm struct {
	timer *time.Timer
	at    time.Time
}

// newAlarm returns an alarm that never rings.
func newAlarm() *alarm {
	t := time.NewTimer(0)
	t.Stop()
	return &alarm{timer: t}
}

// set makes the alarm ring at a time, or never if ok is false.
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

// rings has a value when the alarm rings.
func (a *alarm) rings() <-chan time.Time { return a.timer.C }

func (a *alarm) stop() { a.timer.Stop() }
