package generate

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"outrigger.dev/agents/container-toolkit/internal/facts"
	"outrigger.dev/pkg/cdi"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/hostfs"
)

// Config selects the specs to keep, and their folder.
type Config struct {
	// Root is the driver installation.
	Root *driverroot.Root
	// Proc is the host's /proc.
	Proc driverproc.Root
	// Folder is the folder of the specs, as this process sees it.
	Folder string
	Options
	// Modes are the specs to keep. Default: Modes().
	Modes []Mode
	Log   *slog.Logger
}

// Specs keeps the CDI specs of the container toolkit in a folder, and the facts of the GPUs
// beside the specs. Only one goroutine at a time may use it.
//
// The specs are complete or absent: if a part of the driver is missing, or a working GPU cannot
// be described, Specs removes all of them. With an outdated spec, containers could get other MIG
// devices than they requested.
type Specs struct {
	cfg       Config
	publisher *cdi.Publisher
	// described is true while the folder has the spec of the GPUs.
	described bool
}

// New returns Specs. It does no I/O.
func New(cfg Config) *Specs {
	if len(cfg.Modes) == 0 {
		cfg.Modes = Modes()
	}
	return &Specs{cfg: cfg, publisher: cdi.NewPublisher(cdi.Config{
		Root: cfg.Root, Kinds: cfg.Kinds(cfg.Modes...), Log: cfg.Log,
	})}
}

// Scan finds the driver's files. The returned function writes the specs for the GPUs of a node,
// unless the folder has them already. On an error, it removes the specs, and returns the missing
// part.
func (s *Specs) Scan(struct{}) func(*gpu.Node) (struct{}, error) {
	content, err := s.publisher.Scan(s.cfg.HookPath)
	return func(n *gpu.Node) (struct{}, error) {
		if err == nil {
			err = CheckHidden(s.cfg.Proc, content, n)
		}
		if err == nil {
			err = s.publish(n)
		}
		if err != nil {
			err = errors.Join(fmt.Errorf("generate CDI specs: %w", err), s.Remove())
		}
		return struct{}{}, err
	}
}

func (s *Specs) publish(n *gpu.Node) error {
	unresolved, err := s.publisher.Publish(s.cfg.Folder, n.GPUs, s.cfg.Requests(s.cfg.Modes...)...)
	if err != nil {
		return err
	}
	if len(unresolved) > 0 {
		return unresolved[0]
	}
	return s.writeFacts(n)
}

// spec returns the path of the GPUs' spec.
func (s *Specs) spec() string { return cdi.Dir{Path: s.cfg.Folder}.File(s.cfg.Kind(GPUs)) }

// maxSpec limits the size of a spec, in bytes. A spec of 16 GPUs with MIG devices is smaller.
const maxSpec = 16 << 20

// writeFacts writes the facts of the GPUs' spec, or removes them if there is no spec.
func (s *Specs) writeFacts(n *gpu.Node) error {
	data, err := hostfs.ReadFile(s.spec(), maxSpec)
	s.described = err == nil
	if errors.Is(err, fs.ErrNotExist) {
		return remove(facts.Path(s.spec()))
	}
	if err != nil {
		return fmt.Errorf("read CDI spec: %w", err)
	}
	return facts.Write(s.spec(), data, s.cfg.Facts(n))
}

// Facts returns the facts that the shim needs about the GPUs of a node.
func (o Options) Facts(n *gpu.Node) *facts.Facts {
	return facts.Derive(n, func(g *gpu.GPU) []string { return cdi.Names(g, o.names()...) })
}

// Remove removes the specs and the facts.
func (s *Specs) Remove() error {
	_, err := s.publisher.Publish(s.cfg.Folder, nil)
	s.described = false
	return errors.Join(err, remove(facts.Path(s.spec())))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove facts: %w", err)
	}
	return nil
}

// Outdated reports whether the driver's files, the folders of device nodes, the specs or
// the facts have changed since they were written.
func (s *Specs) Outdated() bool {
	if s.described {
		if _, err := os.Lstat(facts.Path(s.spec())); err != nil {
			return true
		}
	}
	return s.publisher.Outdated()
}

// Watched returns the paths whose changes can make the specs outdated.
func (s *Specs) Watched() []string {
	out := s.publisher.Watched()
	if s.described {
		out = append(out, facts.Path(s.spec()))
	}
	return out
}
