package config

import (
	"cmp"
	"time"

	"outrigger.dev/pkg/health"
)

// Health has the rules that say which faults make a GPU unhealthy.
type Health struct {
	// Severities has the severities of classes that differ from the default.
	Severities map[health.Class]health.Severity
	// Quiet is the time without another XID after which a GPU is healthy; 0 for the default.
	Quiet time.Duration
}

// Rules returns the health rules of the config, and the words of HealthChecks without effect.
func (c Config) Rules() (rules health.Rules, unknown []string) {
	rules, unknown = health.ParseRules(c.HealthChecks.Disable, c.HealthChecks.Enable)
	rules.Quiet = cmp.Or(c.Health.Quiet, health.DefaultQuiet)
	return rules.With(c.Health.Severities), unknown
}
