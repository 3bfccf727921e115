package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// Config says what a Publisher works with.
type Config struct {
	// Root is the driver installation.
	Root *driverroot.Root
	// Kinds are those whose specs belong to this process.
	Kinds []string
	Log   *slog.Logger
}

// Publisher keeps the CDI specs of a node: it scans the driver root, derives the
// specs for the node's GPUs, and writes those that changed. It is used by one
// goroutine at a time.
type Publisher struct {
	cfg Config
	// content is what the last Scan found, nil if the driver is incomplete.
	content *driverroot.Content
	synced  Synced
	// reported are the foreign specs that the log has.
	reported []string
}

// NewPublisher returns a Publisher; it touches nothing before Scan.
func NewPublisher(cfg Config) *Publisher { return &Publisher{cfg: cfg} }

// Scan reads the driver root for specs with the hook at hookPath, which may be
// empty. The content is nil if there is an error.
func (p *Publisher) Scan(hookPath string) (*driverroot.Content, error) {
	p.content = nil
	if err := p.findHook(hookPath); err != nil {
		return nil, err
	}
	var err error
	p.content, err = p.cfg.Root.Find()
	return p.content, err
}

// findHook returns an error if the hook is known to be missing on the host: the
// runtime would reject every container with a GPU.
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

// Publish makes folder hold the specs that are requested for the GPUs, and no
// others of the Publisher's kinds. It returns the devices that work and that the
// specs do not have. On an error the folder keeps the specs that it has.
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

// reportForeign logs the specs of other programs that have a kind of this
// process, once for each set of them.
func (p *Publisher) reportForeign(files []string) {
	if len(files) > 0 && !slices.Equal(files, p.reported) {
		p.cfg.Log.Warn("another program wrote cdi specs of the same kinds, which can keep containers from starting: remove them",
			"files", strings.Join(files, ", "))
	}
	p.reported = files
}

// Outdated reports whether the driver's files, the folders of device nodes or
// the written specs have changed since the last Scan and Publish.
func (p *Publisher) Outdated() bool {
	return p.content != nil && p.content.Outdated() || p.synced.Outdated()
}

// Watched returns the paths where a change can make the specs outdated.
func (p *Publisher) Watched() []string {
	out := slices.Sorted(maps.Keys(p.synced.files))
	if p.content != nil {
		out = append(out, p.content.Watched()...)
	}
	return out
}
