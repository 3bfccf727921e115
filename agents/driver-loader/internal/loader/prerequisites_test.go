package loader_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
	"outrigger.dev/agents/driver-loader/internal/module"
	"outrigger.dev/agents/driver-loader/internal/module/moduletest"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
)

// own loads modules of the kernel too.
type own struct{ loadertest.Node }

func (o own) Load(ctx context.Context, m *module.Module, params []string) error {
	if strings.HasPrefix(m.Name, "nvidia") {
		return o.Node.Load(ctx, m, params)
	}
	return nil
}

func TestOnlyModulesOfTheKernelThatAreLoadedAreLogged(t *testing.T) {
	n := loadertest.New(t)
	const release, file = "6.1.0-1-amd64", "kernel/drivers/char/ipmi/ipmi_devintf.ko"
	installed := filepath.Join(n.Dir, "modules", release)
	m := moduletest.Module{Name: "ipmi_devintf", Vermagic: release + " SMP"}
	payloadtest.Write(t, filepath.Join(installed, file), string(m.Bytes()), 0o644)
	payloadtest.Write(t, filepath.Join(installed, "modules.dep"), file+":\n", 0o644)
	payloadtest.Write(t, filepath.Join(installed, "modules.builtin"), "kernel/ipmi_msghandler.ko\n", 0o644)
	n.Stock(t, one)
	var log bytes.Buffer
	cfg := n.Config(one, slog.New(slog.NewTextHandler(&log, nil)))
	cfg.Calls = own{n}
	if step := loader.New(cfg, loadertest.Machine).Settle(t.Context()); step.Kind != loader.Done {
		t.Fatalf("%s %v", step, step.Causes)
	}
	if !strings.Contains(log.String(), `msg="loading module" module=ipmi_devintf`) {
		t.Errorf("ipmi_devintf was loaded, and the log does not say so:\n%s", &log)
	}
	for _, name := range []string{"i2c_core", "ipmi_msghandler"} {
		if strings.Contains(log.String(), name) {
			t.Errorf("nothing was done about %s, and the log names it:\n%s", name, &log)
		}
	}
}

func TestAModuleThatTheDriverDoesNotHaveIsNamed(t *testing.T) {
	n := loadertest.New(t)
	n.Stock(t, one)
	cfg := n.Config(one, slog.New(slog.DiscardHandler))
	cfg.Desired = func() (loader.Desired, error) {
		return loader.Desired{Version: one, Options: stack.Options{DRM: true}}, nil
	}
	step := loader.New(cfg, loadertest.Machine).Settle(t.Context())
	if len(step.Causes) != 1 || step.Causes[0].Code != cause.ModuleNotInDriver || !strings.Contains(step.Causes[0].Text, "nvidia_drm") {
		t.Errorf("%s %v", step, step.Causes)
	}
}
