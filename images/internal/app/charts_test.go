package app_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"

	"outrigger.dev/images/internal/app"
)

// pack writes what "helm package" writes for a chart.
func pack(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "chart.tgz")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The form of a chart in a registry is that of Helm's documentation, "Use OCI-based
// registries": its metadata as the configuration, and its package as the only layer.
func TestChartsBecomeAnOCILayout(t *testing.T) {
	file := pack(t, map[string]string{
		"x/Chart.yaml": "apiVersion: v2\nname: x\nversion: 26.11.0\ndescription: Does x\n", "x/charts/y/Chart.yaml": "name: y\n",
	})
	dir := filepath.Join(t.TempDir(), "oci")
	for range 2 { // the second run replaces the first
		var out bytes.Buffer
		if code := app.Main([]string{"images", "charts", "--out", dir, file}, &out, &out); code != 0 || out.String() != dir+":x-26.11.0\n" {
			t.Fatalf("exit code %d: %s", code, &out)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := index.IndexManifest()
	if err != nil || len(all.Manifests) != 1 || all.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "x-26.11.0" {
		t.Fatalf("the index is %+v, %v", all, err)
	}
	image, err := index.Image(all.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != "application/vnd.cncf.helm.chart.content.v1.tar+gzip" ||
		manifest.Config.MediaType != "application/vnd.cncf.helm.config.v1+json" || manifest.Annotations["org.opencontainers.image.version"] != "26.11.0" {
		t.Errorf("the manifest is %+v", manifest)
	}
	raw, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]string
	if err := json.Unmarshal(raw, &config); err != nil || config["name"] != "x" || config["description"] != "Does x" {
		t.Errorf("the configuration is %s, %v", raw, err)
	}
	blob, err := layout.Path(dir).Blob(manifest.Layers[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	defer blob.Close()
	got, err := io.ReadAll(blob)
	want, wantErr := os.ReadFile(file)
	if err != nil || wantErr != nil || !bytes.Equal(got, want) {
		t.Errorf("the layer differs from the package: %v, %v", err, wantErr)
	}
}

func TestChartsRejectsOtherFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no package":               {nil, "needs the packages"},
		"an archive without chart": {[]string{pack(t, map[string]string{"x/values.yaml": "a: 1\n"})}, "no Chart.yaml"},
		"no archive":               {[]string{"charts_test.go"}, "unpack"},
		"a folder with files":      {[]string{"--out", ".", "charts_test.go"}, "no OCI layout"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			args := append([]string{"images", "charts", "--out=" + filepath.Join(t.TempDir(), "oci")}, tc.args...)
			if code := app.Main(args, &out, &out); code != 1 || !strings.Contains(out.String(), tc.want) {
				t.Errorf("exit code %d: %s, want %q", code, &out, tc.want)
			}
		})
	}
}
