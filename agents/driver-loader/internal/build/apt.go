package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/staging"
)

// apt downloads packages with apt-get. It keeps all state of apt-get in the folder work.
type apt struct {
	*Repositories
	work string
	// trusted is a file with certificates. If empty, apt trusts the certificates of the image.
	trusted string
}

// maxPackages limits the number of packages with the headers of a kernel. Debian has three.
const maxPackages = 16

// options returns the options for all programs of apt.
func (a apt) options() []string {
	var options []string
	for _, o := range []string{
		"Dir::State=" + filepath.Join(a.work, "state"),
		"Dir::State::status=" + filepath.Join(a.work, "status"),
		"Dir::Cache=" + filepath.Join(a.work, "cache"),
		"Dir::Etc=" + filepath.Join(a.etc(), "apt"),
		"Acquire::http::Timeout=" + a.seconds(), "Acquire::https::Timeout=" + a.seconds(),
		"Acquire::Retries=1", "Acquire::Languages=none",
		// An update that misses a repository is an error, not a warning.
		"APT::Update::Error-Mode=any",
	} {
		options = append(options, "-o", o)
	}
	if a.trusted != "" {
		options = append(options, "-o", "Acquire::https::CAInfo="+a.trusted)
	}
	return options
}

func (a apt) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	return output(ctx, a.work, program, append(a.options(), args...)...)
}

// download downloads the package with the headers of a kernel, and the header packages that it needs.
func (a apt) download(ctx context.Context, release string) error {
	for _, dir := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.work, dir), 0o755); err != nil { //nolint:gosec // apt reads the folder as another user
			return staging.Explain(a.work, err)
		}
	}
	if err := os.WriteFile(filepath.Join(a.work, "status"), nil, 0o644); err != nil { //nolint:gosec // apt reads the file as another user
		return staging.Explain(a.work, err)
	}
	// A repository that does not answer is not an error if another one has the package. For example,
	// the repositories of the image do not answer on a node without the internet.
	_, missing := a.run(ctx, "apt-get", "update", "-q")
	if _, failed := errors.AsType[*toolError](missing); missing != nil && !failed {
		return missing
	}
	names, err := a.closure(ctx, "linux-headers-"+release)
	if err != nil && missing != nil {
		return unavailable(missing)
	}
	if err != nil {
		return err
	}
	_, err = a.run(ctx, "apt-get", append([]string{"download", "-q"}, names...)...)
	return unavailable(err)
}

// closure returns a package of headers and the header packages that it depends on. The image has
// the compilers and libraries.
func (a apt) closure(ctx context.Context, first string) ([]string, error) {
	names := []string{first}
	for i := 0; i < len(names) && i < maxPackages; i++ {
		about, err := a.run(ctx, "apt-cache", "show", "--no-all-versions", names[i])
		if _, failed := errors.AsType[*toolError](err); failed {
			return nil, noPackage(names[i])
		}
		if err != nil {
			return nil, err
		}
		for _, name := range parts(string(about)) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// parts returns the header packages that a package depends on.
func parts(about string) []string {
	name := regexp.MustCompile(`^linux-(\S*headers-\S+|kbuild-\S+)$`)
	var names []string
	for line := range strings.Lines(about) {
		depends, is := strings.CutPrefix(line, "Depends:")
		if !is {
			continue
		}
		for d := range strings.SplitSeq(depends, ",") {
			// Of several alternatives, only the first is used.
			if words := strings.Fields(d); len(words) > 0 && name.MatchString(words[0]) {
				names = append(names, words[0])
			}
		}
	}
	return names
}
