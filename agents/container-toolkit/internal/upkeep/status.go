// Package upkeep reconciles the parts of the container toolkit on a node: the tools, the CDI
// specs and device nodes, and the config of the container engine.
package upkeep

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/pkg/reconcile"
)

// namespace begins the names of all metrics.
const namespace = "outrigger_container_toolkit"

// Part is the name of a part.
type Part string

// The parts.
const (
	// Sole is the right to be the only toolkit on the node.
	Sole   Part = "lock"
	Tools  Part = "tools"
	Specs  Part = "cdi"
	Engine Part = "runtime"
	NRI    Part = "nri"
)

// ErrPending is the state of a part before its first result.
var ErrPending = errors.New("has not run yet")

// Status records which parts are as desired. It is safe for concurrent use.
type Status struct {
	log *slog.Logger
	// changed is called with the result of Err after each change of that result. The calls do
	// not overlap.
	changed func(error)
	ready   *prometheus.GaugeVec

	mu    sync.Mutex
	parts []Part
	errs  map[Part]error
	all   *reconcile.Status
}

// NewStatus returns the Status of parts that are pending.
func NewStatus(log *slog.Logger, changed func(error), parts ...Part) *Status {
	s := &Status{log: log, changed: changed, parts: parts, errs: map[Part]error{}}
	s.ready = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "part_ready",
		Help: "1 while a part of the toolkit is in its desired state: lock, tools, cdi, runtime or nri; 0 while it is not, as /readyz explains.",
	}, []string{"part"})
	for _, p := range parts {
		s.errs[p] = ErrPending
		s.ready.WithLabelValues(string(p)).Set(0)
	}
	s.all = reconcile.NewStatus(s.err())
	return s
}

// Metrics returns the metrics of the parts.
func (s *Status) Metrics() prometheus.Collector { return s.ready }

// Set records why a part is not as desired, or nil if it is. It ignores parts that were not
// passed to NewStatus.
func (s *Status) Set(p Part, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, counts := s.errs[p]; !counts {
		return
	}
	s.errs[p] = err
	value := 0.0
	if err == nil {
		value = 1
	}
	s.ready.WithLabelValues(string(p)).Set(value)
	was, now := s.all.Err(), s.err()
	if !s.all.Set(now) {
		return
	}
	if now == nil {
		s.log.Info("the toolkit is ready")
	} else if was == nil {
		s.log.Warn("the toolkit is no longer ready", "err", now)
	}
	s.changed(now)
}

// Err returns why the toolkit is not ready, nil if it is.
func (s *Status) Err() error { return s.all.Err() }

func (s *Status) err() error {
	var errs []error
	for _, p := range s.parts {
		if err := s.errs[p]; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}
