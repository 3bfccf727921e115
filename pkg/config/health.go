package config

import (
	"outrigger.dev/pkg/config/strict"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/text"
)

// Health has the severities of classes of faults that differ from the default.
type Health map[health.Class]health.Severity

// Rules returns the health rules of the config, and the items of the lists in HealthChecks that have
// no effect (see health.ParseRules).
func (c Config) Rules() (rules health.Rules, unknown []string) {
	rules, unknown = health.ParseRules(c.HealthChecks.Disable, c.HealthChecks.Enable)
	rules.Quiet = c.HealthChecks.Quiet
	return rules.With(c.Health), unknown
}

// readHealth reads the section with the severity of each class.
func readHealth(v strict.Value) Health {
	var out Health
	for _, e := range v.Entries() {
		class, err := health.ParseClass(e.Name)
		if err != nil {
			e.Fail("%v", err)
		}
		word, ok := e.Text()
		severity, unknown := health.ParseSeverity(word)
		if ok && unknown != nil {
			e.Bad(text.OneOf(health.Severities()))
		}
		if ok && unknown == nil && err == nil {
			if out == nil {
				out = Health{}
			}
			out[class] = severity
		}
	}
	return out
}
