package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// Config configures a Publisher.
type Config struct {
	// Root is the driver installation.
	Root *driverroot.Root
	// Kinds are the CDI kinds whose specs this process owns.
	Kinds []string
	Log   *slog.Logger
}

// Publisher keeps the CDI specs of a node: it scans the driver root, derives the
// specs for the node's GPUs, and writes the changed specs. Only one goroutine at a
// time may use it.
type Publisher struct {
	cfg Config
	// content is the result of the last Scan, nil if the driver is incomplete.
	content *driverroot.Content
	synced  Synced
	// reported are the foreign specs in the last log message.
	reported []string
}

// NewPublisher returns a Publisher. It does no I/O.
func NewPublisher(cfg Config) *Publisher { return &Publisher{cfg: cfg} }

// Scan finds the driver's files in the driver root, for the next Publish. hookPath is the path of
// the hook on the host, or empty for specs without hooks. Scan returns an error, and no content, if
// the driver installation is incomplete or the hook is known to be missing.
func (p *Publisher) Scan(hookPath string) (*driverroot.Content, error) {
	p.content = nil
	if err := p.findHook(hookPath); err != nil {
		return nil, err
	}
	var err error
	p.content, err = p.cfg.Root.Find()
	if missing, is := errors.AsType[*driverroot.MissingError](err); is {
		p.cfg.Log.Debug("the driver root is incomplete", "searched", missing.Searched())
	}
	return p.content, err
}

// findHook returns an error if the hook is known to be missing on the host. The runtime would
// reject every container with a GPU.
func (p *Publisher) findHook(hook string) error {
	if hook == "" || p.cfg.Root.HostPath() != "/" {
		return nil
	}
	seen, _ := p.cfg.Root.CtrPathOf(hook)
	if _, err := os.Stat(seen); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("find hook %s on the host: %w (install it, or leave nvidia-cdi-hook-path empty for a spec without hooks)", hook, err)
	}
	return nil
}

// Publish writes the requested specs for the GPUs to folder, and removes all other specs of the
// Publisher's kinds from it. If there are requests, the last Scan must have succeeded. Publish
// returns the working devices that the specs do not describe. If it cannot derive a spec, it leaves
// the folder unchanged. If it cannot write a spec, the previous spec of that kind stays.
func (p *Publisher) Publish(folder string, gpus []gpu.GPU, requests ...Request) ([]Unresolved, error) {
	desired, unresolved, err := Specs(p.content, gpus, requests...)
	if err != nil {
		return unresolved, err
	}
	p.synced, err = Dir{Path: folder, Kinds: p.cfg.Kinds}.Sync(desired...)
	if err != nil {
		return unresolved, err
	}
	p.reportForeign(p.synced.Foreign)
	switch {
	case !p.synced.Changed:
	case len(desired) == 0:
		p.cfg.Log.Info("cdi specs removed", "folder", folder)
	default:
		kinds, devices := make([]string, 0, len(desired)), 0
		for _, s := range desired {
			kinds = append(kinds, s.Kind)
			devices += len(s.Devices)
		}
		p.cfg.Log.Info("cdi specs written", "folder", folder, "kinds", kinds, "devices", devices, "driver", p.content.Version,
			"capabilities", p.content.Capabilities().String())
	}
	return unresolved, nil
}

// reportForeign logs the specs of other programs that have a kind of this process. It logs again
// only after the set of files has changed.
func (p *Publisher) reportForeign(files []string) {
	if len(files) > 0 && !slices.Equal(files, p.reported) {
		p.cfg.Log.Warn("another program wrote cdi specs of the same kinds, which can prevent containers from starting: remove these specs",
			"files", strings.Join(files, ", "))
	}
	p.reported = files
}

// Outdated reports whether the driver's files or the folders of device nodes have
// changed since the last Scan, or the written specs since the last Publish.
func (p *Publisher) Outdated() bool {
	return p.content != nil && p.content.Outdated() || p.synced.Outdated()
}

// Watched returns the paths whose changes can make the specs outdated. They include the folder
// of the specs, because it can be moved together with the specs.
func (p *Publisher) Watched() []string {
	out := slices.Sorted(maps.Keys(p.synced.files))
	if len(out) > 0 {
		out = append(out, filepath.Dir(out[0]))
	}
	if p.content != nil {
		out = append(out, p.content.Watched()...)
	}
	return out
}
