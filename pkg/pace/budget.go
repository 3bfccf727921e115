package pace

import "time"

// Budget limits a rate: Burst events at once, and then one in each Every. It is not safe for
// concurrent use.
type Budget struct {
	Burst int
	Every time.Duration

	// spent is the number of events that the budget has not regained yet. It regains the next event
	// when Every has passed after the time in the field since.
	spent int
	since time.Time
}

// Spend spends one event, and reports whether the budget had one.
func (b *Budget) Spend(now time.Time) bool {
	if b.spent == 0 {
		b.since = now
	}
	back := int(now.Sub(b.since) / b.Every)
	b.spent = max(b.spent-back, 0)
	b.since = b.since.Add(time.Duration(back) * b.Every)
	if b.spent == b.Burst {
		return false
	}
	b.spent++
	return true
}
