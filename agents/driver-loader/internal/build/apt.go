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

// apt downloads packages with apt-get, with all its state in a folder.
type apt struct {
	*Repositories
	work string
	// trusted is a file of certificates, "" for those of the image.
	trusted string
}

// maxPackages bounds the packages of the headers of a kernel; Debian has three.
const maxPackages = 16

// options are those of all of apt's programs.
func (a apt) options() []string {
	var options []string
	for _, o := range []string{
		"Dir::State=" + filepath.Join(a.work, "state"),
		"Dir::State::status=" + filepath.Join(a.work, "status"),
		"Dir::Cache=" + filepath.Join(a.work, "cache"),
		"Dir::Etc=" + filepath.Join(a.etc(), "apt"),
		"Acquire::http::Timeout=" + a.seconds(), "Acquire::https::Timeout=" + a.seconds(),
		"Acquire::Retries=1", "Acquire::Languages=none",
		// An update without one of the repositories is an error, not a warning.
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

// download downloads the headers of a kernel, and the packages with parts of them.
func (a apt) download(ctx context.Context, release string) error {
	for _, dir := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.work, dir), 0o755); err != nil { //nolint:gosec // apt reads it as another user
			return staging.Explain(a.work, err)
		}
	}
	if err := os.WriteFile(filepath.Join(a.work, "status"), nil, 0o644); err != nil { //nolint:gosec // as above
		return staging.Explain(a.work, err)
	}
	// One repository that does not answer, such as those of the image on a node without the
	// internet, is no error if the others have the package.
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

// closure returns a package of headers with those that it depends on for more of them.
// Compilers and libraries are in the image.
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

// parts returns the packages with parts of headers that a package depends on.
func parts(about string) []string {
	name := regexp.MustCompile(`^linux-(\S*headers-\S+|kbuild-\S+)$`)
	var names []string
	for line := range strings.Lines(about) {
		depends, is := strings.CutPrefix(line, "Depends:")
		if !is {
			continue
		}
		for d := range strings.SplitSeq(depends, ",") {
			// Of alternatives, the first one counts.
			if words := strings.Fields(d); len(words) > 0 && name.MatchString(words[0]) {
				names = append(names, words[0])
			}
		}
	}
	return names
}
