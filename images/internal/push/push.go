// Package push copies images and charts from this machine to a registry.
package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// example is a registry for messages.
const example = "registry.example.org/gpu"

// Registry is a registry, and optionally a path in it.
type Registry struct {
	prefix  string
	options []name.Option
}

// ParseRegistry returns the registry of a text such as registry.example.org/gpu. Insecure permits
// HTTP, which localhost and private addresses may always use.
func ParseRegistry(text string, insecure bool) (Registry, error) {
	r := Registry{prefix: strings.TrimRight(text, "/")}
	if insecure {
		r.options = append(r.options, name.Insecure)
	}
	if r.prefix == "" {
		return r, fmt.Errorf("push: no registry: name one, for example %s", example)
	}
	if scheme, rest, ok := strings.Cut(r.prefix, "://"); ok {
		return r, fmt.Errorf("push: the registry %s has a scheme: omit %s://, as in %s", text, scheme, strings.TrimLeft(rest, "/"))
	}
	if _, err := r.tag("name", "tag"); err != nil {
		return r, fmt.Errorf("push: %q is no registry: %w; give HOST, HOST:PORT or HOST/PATH, for example %s", text, err, example)
	}
	return r, nil
}

// tag returns the full name of an image or a chart in the registry.
func (r Registry) tag(repository, tag string) (name.Tag, error) {
	return name.NewTag(r.prefix+"/"+repository+":"+tag, r.options...)
}

// Pushed is an image or a chart in the registry.
type Pushed struct {
	Ref    name.Tag
	Digest v1.Hash
}

// Push copies the contents of the folders to the registry, and writes a line for each. It takes the
// credentials of "docker login" and "podman login".
func (r Registry) Push(ctx context.Context, stdout io.Writer, folders ...string) ([]Pushed, error) {
	pusher, err := remote.NewPusher(remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("outrigger"))
	if err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	var all []Pushed
	for _, folder := range folders {
		err := read(folder, func(i item) error {
			ref, err := r.tag(i.repository, i.tag)
			if err != nil {
				return err
			}
			digest, err := i.content.Digest()
			if err != nil {
				return err
			}
			if err := pusher.Push(ctx, ref, i.content); err != nil {
				return fmt.Errorf("%w%s", err, fix(err, ref.RegistryStr()))
			}
			fmt.Fprintf(stdout, "%s  %s\n", ref, digest)
			all = append(all, Pushed{Ref: ref, Digest: digest})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("push %s to %s: %w", folder, r.prefix, err)
		}
	}
	return all, nil
}

// Checksums returns the digests in the format of sha256sum, with the names of images and charts
// without their tags.
func Checksums(all []Pushed) []byte {
	var lines []string
	for _, p := range all {
		if line := p.Digest.Hex + "  " + p.Ref.Context().Name() + "\n"; !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return []byte(strings.Join(lines, ""))
}

// fix returns the fix for an error of a registry.
func fix(err error, host string) string {
	var refused *transport.Error
	switch {
	case errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden):
		return fmt.Sprintf("; log in as a user who can write there: docker login %s, or podman login %s", host, host)
	case strings.Contains(err.Error(), http.ErrSchemeMismatch.Error()):
		return "; the registry has no TLS: set IMAGES_INSECURE=true"
	}
	return ""
}
