package app

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/gpu/mig"
)

// configs are the files with MIG configs. Each path may be empty. It is not safe for concurrent use.
type configs struct {
	base, user string
	log        *slog.Logger
	// texts are the files as they were last read, and rejected what was logged about them, by path.
	texts    map[string][]byte
	rejected map[string]string
}

// newConfigs returns the files with configs: base, over which generated ones take precedence, and
// user, which takes precedence over these.
func newConfigs(base, user string, log *slog.Logger) *configs {
	return &configs{base: base, user: user, log: log, texts: map[string][]byte{}, rejected: map[string]string{}}
}

// folders returns those to watch: a file that is mounted is replaced, not written.
func (f *configs) folders() []string {
	var out []string
	for _, path := range []string{f.base, f.user} {
		if path != "" {
			out = append(out, filepath.Dir(path))
		}
	}
	return out
}

// selected returns what the config of a name asks of GPUs: of a file, or generated for them. Of a
// file that is invalid, only the names in it fail.
func (f *configs) selected(name string, gpus []mig.GPU) (manager.Wish, error) {
	generated, err := migconfig.Generate(gpus)
	if err != nil && !errors.Is(err, migconfig.ErrNoProfiles) {
		return nil, err
	}
	base, user := f.read(f.base), f.read(f.user)
	if user.err != nil && user.names(name) {
		return nil, user.err
	}
	all := base.Merge(generated).Merge(user.Config)
	if _, ok := all.Entries[name]; !ok {
		if base.err != nil && base.names(name) {
			return nil, base.err
		}
		err := fmt.Errorf("config %q does not exist: the GPUs of the node have %s", name, strings.Join(order(all, user.Config), ", "))
		for _, of := range []layer{user, base} {
			if of.err != nil {
				err = fmt.Errorf("%w; a file with more configs cannot be used: %w", err, of.err)
			}
		}
		return nil, err
	}
	s, err := all.Select(name, gpus)
	if err != nil {
		return nil, err
	}
	return s.Want, unreadable(s.Faulty)
}

// order returns the names of configs: those of the user first, as a cause is cut.
func order(all, user migconfig.Config) []string {
	names := user.Names()
	for _, name := range all.Names() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// layer is a file with configs, or why it has none. text is what it had when it could last be read.
type layer struct {
	migconfig.Config
	text []byte
	err  error
}

// names reports whether the file may have a config of a name, wherever it is wrong.
func (l layer) names(name string) bool {
	key := regexp.MustCompile(`(^|[^A-Za-z0-9._-])["']?` + regexp.QuoteMeta(name) + `["']?\s*:`)
	return key.Match(l.text)
}

// read reads a file. It logs an error once.
func (f *configs) read(path string) layer {
	if path == "" {
		return layer{}
	}
	l := layer{text: f.texts[path]}
	data, err := configfile.Read(path)
	if err == nil {
		l.text, f.texts[path] = data, data
		l.Config, err = migconfig.Read(path, data)
	}
	if err == nil {
		delete(f.rejected, path)
		return l
	}
	l.err = err
	if f.rejected[path] != err.Error() {
		f.rejected[path] = err.Error()
		f.log.Error("config file rejected, its configs cannot be used until it is valid", "file", path, "err", err)
	}
	return l
}
