// Package stacktest provides a stack for tests that have a separate cluster.
package stacktest

import (
	"context"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// Limit is the time limit of a wait that takes seconds on an idle machine.
const Limit = 10 * time.Minute

// Rig is a stack in a test or subtest. Its methods end the test on an error.
type Rig struct {
	*stack.Stack
	T *testing.T
}

// New starts a cluster. It is removed when the test ends.
func New(t *testing.T, cfg cluster.Config) Rig {
	t.Helper()
	s, err := stack.Fresh(t.Context(), cfg)
	if s != nil {
		t.Cleanup(func() {
			if err := s.Down(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	r := Rig{Stack: s, T: t}
	r.Must(err)
	return r
}

// Must ends the test on an error.
func (r Rig) Must(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
}

// Part runs a subtest. If it fails, the test ends, because later parts depend on it.
func (r Rig) Part(name string, do func(Rig)) {
	r.T.Helper()
	if !r.T.Run(name, func(t *testing.T) { do(Rig{Stack: r.Stack, T: t}) }) {
		r.T.FailNow()
	}
}

// MustKubectl runs kubectl and returns its output, without leading and trailing white space.
func (r Rig) MustKubectl(args ...string) string {
	r.T.Helper()
	out, err := r.Kubectl(r.T.Context(), args...)
	r.Must(err)
	return strings.TrimSpace(out)
}

// Shell runs a script on a node and returns its output, without leading and trailing white space.
func (r Rig) Shell(node, script string) string {
	r.T.Helper()
	out, err := r.Exec(r.T.Context(), node, "sh", "-c", script)
	r.Must(err)
	return strings.TrimSpace(out)
}

// Until waits until holds returns true, for at most Limit.
func (r Rig) Until(what string, holds func() bool) {
	r.T.Helper()
	ctx, cancel := context.WithTimeout(r.T.Context(), Limit)
	defer cancel()
	for !holds() {
		if !pace.Pause(ctx, 500*time.Millisecond) { // each call of holds runs kubectl at least once
			r.T.Fatalf("wait until %s: it did not within %s", what, Limit)
		}
	}
}
