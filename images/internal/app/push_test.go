package app_test

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"outrigger.dev/images/internal/app"
	"outrigger.dev/images/internal/oci"
)

// newRegistry starts a registry without TLS, and returns its address.
func newRegistry(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	server := httptest.NewServer(wrap(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))))
	t.Cleanup(server.Close)
	// Keep the credentials of the user who runs the test out of it.
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_AUTH_FILE", filepath.Join(t.TempDir(), "none"))
	return strings.TrimPrefix(server.URL, "http://")
}

func open(h http.Handler) http.Handler { return h }

// pushed runs "images push" and returns what it printed.
func pushed(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if got := app.Main(append([]string{"images", "push"}, args...), &out, &out); got != code {
		t.Fatalf("images push %s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, &out)
	}
	return out.String()
}

// get returns what a registry has under a name.
func get(t *testing.T, ref string) *remote.Descriptor {
	t.Helper()
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Get(tag, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestPushKeepsNameTagAndDigestOfTheImages(t *testing.T) {
	args, out := workspace(t, static, "-static")
	built := strings.Fields(images(t, 0, args...))
	_, tag, _ := strings.Cut(built[1], ":")
	host := newRegistry(t, open)
	for range 2 { // the second run finds everything there
		want := host + "/team/gpu/prog:" + tag + "  " + built[2] + "\n"
		if got := pushed(t, 0, "--from", out, host+"/team/gpu/"); got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
	image, err := get(t, host+"/team/gpu/prog:"+tag).Image()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	if digest, err := image.Digest(); err != nil || digest.String() != built[2] {
		t.Errorf("the digest is %s, %v; build printed %s", digest, err, built[2])
	}
}

// releaseFolder returns a folder as "make release" writes it, with one component and one chart.
func releaseFolder(t *testing.T) string {
	t.Helper()
	release := t.TempDir()
	var platforms []v1.Image
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
			&v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}})
		if err != nil {
			t.Fatal(err)
		}
		platforms = append(platforms, image)
	}
	if err := os.Mkdir(filepath.Join(release, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	// A release also has an archive for each architecture. They have the tag of the index.
	if err := os.WriteFile(filepath.Join(release, "images/agent-26.11.0-debian12-amd64.tar"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := oci.WriteLayout(filepath.Join(release, "images/agent"), platforms, "26.11.0-debian12", "26.11.0"); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	chart := pack(t, map[string]string{"agent/Chart.yaml": "apiVersion: v2\nname: agent\nversion: 26.11.0\n"})
	if code := app.Main([]string{"images", "charts", "--out", filepath.Join(release, "charts/oci"), chart}, &printed, &printed); code != 0 {
		t.Fatal(&printed)
	}
	return release
}

func TestPushOfAReleaseHasAllArchitecturesAndTheCharts(t *testing.T) {
	release, host := releaseFolder(t), newRegistry(t, open)
	var got []string
	record := filepath.Join(t.TempDir(), "new/images.txt")
	digests := map[string]string{}
	for line := range strings.Lines(pushed(t, 0, "--record", record, "--from", release+"/images", "--from", release+"/charts/oci", host)) {
		ref, digest, _ := strings.Cut(strings.TrimSpace(line), "  sha256:")
		got, digests[ref] = append(got, ref), digest
	}
	recorded, err := os.ReadFile(record)
	want := digests[host+"/agent:26.11.0"] + "  " + host + "/agent\n" + digests[host+"/charts/agent:26.11.0"] + "  " + host + "/charts/agent\n"
	if err != nil || string(recorded) != want {
		t.Errorf("recorded %q, %v, want %q", recorded, err, want)
	}
	if diff := cmp.Diff([]string{host + "/agent:26.11.0-debian12", host + "/agent:26.11.0", host + "/charts/agent:26.11.0"}, got); diff != "" {
		t.Errorf("pushed (-want +got):\n%s", diff)
	}
	for _, tag := range []string{"26.11.0-debian12", "26.11.0"} {
		index, err := get(t, host+"/agent:"+tag).ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Error(err)
		}
		described, err := index.IndexManifest()
		if err != nil || len(described.Manifests) != 2 || described.Manifests[1].Platform.Architecture != "arm64" {
			t.Errorf("%s: the index is %+v, %v", tag, described, err)
		}
	}
	manifest := string(get(t, host+"/charts/agent:26.11.0").Manifest)
	if !strings.Contains(manifest, "application/vnd.cncf.helm.chart.content.v1.tar+gzip") {
		t.Errorf("the chart is %s", manifest)
	}
}

func TestPushTakesTheCredentialsOfDocker(t *testing.T) {
	args, out := workspace(t, static, "-static")
	images(t, 0, args...)
	host := newRegistry(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, password, ok := r.BasicAuth(); !ok || user != "ann" || password != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	if got := pushed(t, 1, "--from", out, host); !strings.Contains(got, "docker login "+host) || strings.Count(got, "\n") != 1 {
		t.Errorf("without credentials: %s", got)
	}
	config := `{"auths": {"` + host + `": {"auth": "` + base64.StdEncoding.EncodeToString([]byte("ann:secret")) + `"}}}`
	if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	pushed(t, 0, "--from", out, host)
}

func TestPushNamesTheFix(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "agent.tar"), []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"no registry":              {nil, []string{"no registry", "registry.example.org/gpu"}},
		"a registry with a scheme": {[]string{"https://registry.example.org/gpu"}, []string{"omit https://", "as in registry.example.org/gpu"}},
		"no name of a registry":    {[]string{"Registry Of Ours"}, []string{"HOST:PORT", "registry.example.org/gpu"}},
		"a folder without images":  {[]string{"--from", t.TempDir(), "localhost:1"}, []string{"no images and no charts", "make images"}},
		"a file that is no image":  {[]string{"--from", full, "localhost:1"}, []string{"unpack", "agent.tar"}},
		"two registries":           {[]string{"localhost:1", "localhost:2"}, []string{"localhost:2", "one registry"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := pushed(t, 1, tc.args...)
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in: %s", want, got)
				}
			}
		})
	}
}
