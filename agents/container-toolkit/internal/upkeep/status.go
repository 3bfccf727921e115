// Package upkeep keeps the parts of the container toolkit on a node as they should be: the
// tools, the CDI specs and device nodes, and the config of the container engine. It takes
// all of it back when the toolkit is uninstalled.
package upkeep

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

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

// ErrPending is the state of a part at the start.
var ErrPending = errors.New("not done yet")

// Status says which parts are as they should be. It is safe for concurrent use.
type Status struct {
	log *slog.Logger
	// changed is called with the result of Err after each change of it, by one caller at a
	// time.
	changed func(error)

	mu    sync.Mutex
	parts []Part
	errs  map[Part]error
	last  string
}

// NewStatus returns the Status of parts that are not done yet.
func NewStatus(log *slog.Logger, changed func(error), parts ...Part) *Status {
	s := &Status{log: log, changed: changed, parts: parts, errs: map[Part]error{}}
	for _, p := range parts {
		s.errs[p] = ErrPending
	}
	s.last = s.err().Error()
	return s
}

// Set records why a part is not as it should be, nil if it is.
func (s *Status) Set(p Part, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs[p] = err
	now := s.err()
	text := ""
	if now != nil {
		text = now.Error()
	}
	if text == s.last {
		return
	}
	if text == "" {
		s.log.Info("the toolkit is ready")
	} else if s.last == "" {
		s.log.Warn("the toolkit is not ready any more", "err", now)
	}
	s.last = text
	s.changed(now)
}

// Err returns why the toolkit is not ready, nil if it is.
func (s *Status) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err()
}

// Of returns why a part is not as it should be.
func (s *Status) Of(p Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errs[p]
}

func (s *Status) err() error {
	var errs []error
	for _, p := range s.parts {
		if err := s.errs[p]; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}
