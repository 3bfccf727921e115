package manager_test

import (
	"os"
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/kube/apitest"
)

// The fact is there again, whoever removes it, and once it can be written.
func TestTheFactHeals(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"of a config":      {manager.ConfigLabel: "all-balanced"},
		"without a config": {},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodeOn(t, apitest.New(t, labels))
			n.is = "all-balanced"
			fact := n.cfg.Contract.Path(contract.MIGReady)
			folder := filepath.Dir(fact)
			valid := func(when string) {
				t.Helper()
				n.until("published "+when, func(shown) bool {
					f := n.cfg.Contract.Read(contract.MIGReady)
					return f.State == contract.Valid && f.Stamp.Writer == manager.Name
				})
			}
			assert.NilError(t, os.WriteFile(folder, nil, 0o600))
			n.start()
			n.until("looked at", func(shown) bool { return len(n.seen(&n.log)) > 0 })
			assert.NilError(t, os.Remove(folder))
			valid("once it can be written")
			for what, damage := range map[string]func() error{
				"it was removed":          func() error { return os.Remove(fact) },
				"it was truncated":        func() error { return os.Truncate(fact, 0) },
				"its folder was removed":  func() error { return os.RemoveAll(folder) },
				"another agent's was put": func() error { return n.cfg.Contract.Write(contract.MIGReady, contract.Record{Writer: "other"}) },
			} {
				assert.NilError(t, damage())
				valid("after " + what)
			}
		})
	}
}
