package loader_test

import (
	"debug/elf"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/ldso/ldsotest"
)

// TestADriverOfAnotherProgramStays lets things happen to a node with the driver one, and then desires the driver two.
func TestADriverOfAnotherProgramStays(t *testing.T) {
	remove := func(t *testing.T, n loadertest.Node, names ...string) {
		t.Helper()
		for _, name := range names {
			assert.NilError(t, os.RemoveAll(filepath.Join(n.Dir, name)))
		}
	}
	ended := func(t *testing.T, n loadertest.Node) {
		n.Container(t)
		remove(t, n, "run/validations/.driver-ctr-ready")
	}
	for name, test := range map[string]struct {
		change  func(t *testing.T, n loadertest.Node)
		replace bool
		code    cause.Code
	}{
		"this agent has loaded it":                         {change: func(*testing.T, loadertest.Node) {}},
		"another program has loaded the same version":      {change: func(t *testing.T, n loadertest.Node) { n.Stranger(t) }, code: cause.DriverOfOtherProgram},
		"… and a flag replaces it":                         {change: func(t *testing.T, n loadertest.Node) { n.Stranger(t) }, replace: true},
		"the store is lost":                                {change: func(t *testing.T, n loadertest.Node) { remove(t, n, "store") }},
		"the store is lost, and another program loaded it": {change: func(t *testing.T, n loadertest.Node) { remove(t, n, "store"); n.Stranger(t) }, code: cause.DriverOfOtherProgram},
		"the record of this boot is lost":                  {change: func(t *testing.T, n loadertest.Node) { remove(t, n, "run/driver-loader.json") }},
		"the record and the journal are lost":              {change: func(t *testing.T, n loadertest.Node) { remove(t, n, "run/driver-loader.json", "store/journal.json") }},
		"all records are lost":                             {change: func(t *testing.T, n loadertest.Node) { remove(t, n, "run/driver-loader.json", "store") }, code: cause.DriverOfOtherProgram},
		"NVIDIA's driver container runs":                   {change: func(t *testing.T, n loadertest.Node) { n.Container(t) }, code: cause.DriverOfOtherContainer},
		"NVIDIA's driver container has ended":              {change: ended},
		"NVIDIA's driver container starts": {code: cause.DriverOfOtherContainer, change: func(t *testing.T, n loadertest.Node) {
			ended(t, n)
			lock, err := os.Open(filepath.Join(n.Dir, loadertest.ContainerLock))
			assert.NilError(t, err)
			t.Cleanup(func() { assert.NilError(t, lock.Close()) })
			assert.NilError(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := loadertest.New(t)
			settles := func(version string, replace bool, code cause.Code) {
				t.Helper()
				n.Stock(t, version)
				cfg := n.Config(version, slog.New(slog.DiscardHandler))
				cfg.Desired = func() (loader.Desired, error) {
					return loader.Desired{Version: version, ReplaceForeign: replace}, nil
				}
				step := loader.New(cfg, loadertest.Machine).Settle(t.Context())
				got := cause.Code("")
				if len(step.Causes) > 0 {
					got = step.Causes[0].Code
				}
				want := version
				if code != "" {
					want = one
				}
				if got != code || n.Loaded() != want {
					t.Errorf("%s with driver %s (%v), want %s and %q", step, n.Loaded(), step.Causes, want, code)
				}
			}
			settles(one, false, "")
			test.change(t, n)
			settles(two, test.replace, test.code)
		})
	}
}

// TestNoUpgradeOfADriverOfAnotherProgram asks for no upgrade, which would evict pods for nothing.
func TestNoUpgradeOfADriverOfAnotherProgram(t *testing.T) {
	u := newUpgraded(t)
	u.Stranger(t)
	u.restart()
	u.version = two
	u.settles(one, cause.DriverOfOtherProgram)
	if loaded, target := u.ids(true); loaded != "" || target != "" {
		t.Errorf("%q is loaded, and %q is to be loaded", loaded, target)
	}
}

// TestDriversOfHosts recognizes drivers where distributions put them, and never unloads them.
func TestDriversOfHosts(t *testing.T) {
	for name, dir := range map[string]string{
		"Debian":                     "usr/lib/x86_64-linux-gnu/nvidia/current",
		"Ubuntu":                     "usr/lib/x86_64-linux-gnu",
		"Red Hat":                    "usr/lib64",
		"Container-Optimized OS":     "home/kubernetes/bin/nvidia/lib64",
		"Container-Optimized OS (2)": "var/lib/nvidia/lib64",
		"Bottlerocket":               "usr/lib/nvidia/tesla",
		"Bottlerocket (2)":           "x86_64-bottlerocket-linux-gnu/sys-root/usr/lib/nvidia/tesla",
		"Talos":                      "usr/local/lib",
		"Talos (2)":                  "usr/local/glibc/usr/lib",
		"Flatcar":                    "opt/nvidia/current/usr/lib64",
	} {
		t.Run(name, func(t *testing.T) {
			n := loadertest.New(t)
			settle := func(version string) loader.Step {
				n.Stock(t, version)
				return loader.New(n.Config(version, slog.New(slog.DiscardHandler)), loadertest.Machine).Settle(t.Context())
			}
			settle(one)
			n.Stranger(t)
			library := filepath.Join(n.Dir, "host", dir, "libnvidia-ml.so.")
			payloadtest.Write(t, library+one, string(ldsotest.Library(elf.EM_X86_64, "libnvidia-ml.so.1")), 0o644)
			assert.NilError(t, os.Symlink("libnvidia-ml.so."+one, library+"1"))
			if step := settle(two); step.Kind != loader.Done || n.Loaded() != one || n.Published() != one {
				t.Errorf("%s (%v) with driver %s", step, step.Causes, n.Loaded())
			}
		})
	}
}
