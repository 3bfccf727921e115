package app_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/images/internal/app"
)

// images runs "images build" and returns what it printed.
func images(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if got := app.Main(append([]string{"images", "build"}, args...), &out, &out); got != code {
		t.Fatalf("images build %s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, &out)
	}
	return out.String()
}

// unpack returns the files of an archive.
func unpack(t *testing.T, archive string) map[string][]byte {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// workspace is a folder with one component, prog, and its built program: a
// static one, of C, that does nothing.
func workspace(t *testing.T, dockerfile string, flags ...string) (args []string, out string) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is missing: apt-get install build-essential")
	}
	root := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("images/Dockerfile", dockerfile)
	write("bin/.keep", "")
	source := write("main.c", "#include <math.h>\nint main(int c, char **v) { return sin(c) > 2; }\n")
	compile := append(append([]string{"-O0", "-fno-builtin"}, flags...), "-o", filepath.Join(root, "bin/prog"), source, "-lm")
	if text, err := exec.CommandContext(t.Context(), gcc, compile...).CombinedOutput(); err != nil {
		t.Fatalf("compile: %v\n%s", err, text)
	}
	out = filepath.Join(root, "out")
	return []string{"--dir", filepath.Join(root, "images"), "--bin", filepath.Join(root, "bin"), "--out", out, "--version", "1.2.3"}, out
}

const static = `FROM golang AS build
FROM scratch AS image
ARG VERSION
LABEL version=$VERSION
FROM image AS prog
COPY --from=build /out/prog /usr/bin/prog
USER 1:1
ENTRYPOINT ["/usr/bin/prog"]
`

func TestBuildIsReproducible(t *testing.T) {
	args, out := workspace(t, static, "-static")
	archive := filepath.Join(out, "prog.tar")
	if printed := images(t, 0, args...); !strings.Contains(printed, "written") || !strings.Contains(printed, "/prog:1.2.3-") {
		t.Errorf("first run: %s", printed)
	}
	first, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(archive)
	if err != nil {
		t.Fatal(err)
	}
	if printed := images(t, 0, args...); !strings.Contains(printed, "unchanged") {
		t.Errorf("second run: %s", printed)
	}
	if after, err := os.Stat(archive); err != nil || !os.SameFile(before, after) {
		t.Errorf("the archive was written again: %v", err)
	}
	if err := os.Remove(archive); err != nil {
		t.Fatal(err)
	}
	images(t, 0, args...)
	again, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, again) {
		t.Error("the same input gave other bytes")
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".new-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestArchiveLoadsInContainerdAndDocker(t *testing.T) {
	args, out := workspace(t, static, "-static")
	images(t, 0, append(args, "--repository", "example.org/team", "--source-date-epoch", "1700000000")...)
	files := unpack(t, filepath.Join(out, "prog.tar"))

	var docker []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(files["manifest.json"], &docker); err != nil {
		t.Fatal(err)
	}
	var index struct {
		Manifests []struct {
			Digest      string
			Annotations map[string]string
		}
	}
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	ref := docker[0].RepoTags[0]
	if !strings.HasPrefix(ref, "example.org/team/prog:1.2.3-") {
		t.Errorf("docker's name is %s", ref)
	}
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != ref {
		t.Errorf("containerd's name is %s, docker's %s", got, ref)
	}
	if string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %s", files["oci-layout"])
	}
	var config struct {
		Created string
		Config  struct {
			User       string
			Entrypoint []string
			Labels     map[string]string
		}
	}
	if err := json.Unmarshal(files[docker[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"version": "1.2.3"}, config.Config.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if config.Created != "2023-11-14T22:13:20Z" || config.Config.User != "1:1" || config.Config.Entrypoint[0] != "/usr/bin/prog" {
		t.Errorf("configuration: %+v", config)
	}
	if len(docker[0].Layers) != 1 || len(files[docker[0].Layers[0]]) == 0 {
		t.Errorf("layers: %v", docker[0].Layers)
	}
}

func TestBuildReportsErrorsAndWritesNothing(t *testing.T) {
	withBase := strings.Replace(static, "COPY --from=build", "COPY --from=base /rootfs/ /\nCOPY --from=build", 1)
	tests := map[string]struct {
		dockerfile string
		flags      []string
		args       []string
		want       []string
	}{
		"a program that links glibc without a base":  {static, nil, nil, []string{"bin/prog", "libm.so.6", "CGO_ENABLED=0"}},
		"a program that was not built":               {strings.ReplaceAll(static, "/out/prog", "/out/other"), nil, nil, []string{"bin/other", "make build"}},
		"a base without the script that makes it":    {withBase, nil, nil, []string{"base/rootfs.sh", "no such file"}},
		"a stage that is not known":                  {strings.ReplaceAll(static, "build", "fetch"), nil, nil, []string{"stage fetch", "/out/PROGRAM"}},
		"a path that leaves the folder":              {strings.ReplaceAll(static, "/out/prog", "/out/../x"), nil, nil, []string{"/out/../x"}},
		"an instruction that needs an engine":        {static + "RUN true\n", nil, nil, []string{"images/Dockerfile:9", "RUN"}},
		"a base that this machine does not have":     {static, []string{"-static"}, []string{"--os-base", "debian3"}, []string{"debian3", "glibc"}},
		"a component that does not exist":            {static, []string{"-static"}, []string{"nothing"}, []string{"nothing", "unknown component", "prog"}},
		"a version that is no tag":                   {static, []string{"-static"}, []string{"--version", "1 2"}, []string{"1 2"}},
		"a time that is none":                        {static, []string{"-static"}, []string{"--source-date-epoch", "now"}, []string{"now", "seconds since 1970"}},
		"a folder without components":                {static, []string{"-static"}, []string{"--dir", "/nonexistent"}, []string{"/nonexistent", "--dir"}},
		"an unknown flag":                            {static, []string{"-static"}, []string{"--push"}, []string{"push"}},
		"a folder for the archives that is not one ": {static, []string{"-static"}, []string{"--out", "/dev/null/x"}, []string{"/dev/null"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args, out := workspace(t, tc.dockerfile, tc.flags...)
			printed := images(t, 1, append(args, tc.args...)...)
			for _, want := range tc.want {
				if !strings.Contains(printed, want) {
					t.Errorf("%q is missing in: %s", want, printed)
				}
			}
			if left, _ := os.ReadDir(out); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestUsageErrorsAreOneLine(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown command":       {"images", "write"},
		"an unknown flag":          {"images", "--all"},
		"an unknown flag of build": {"images", "build", "--all"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := app.Main(args, &stdout, &stderr)
			if code != 1 || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "--help") {
				t.Errorf("exit code %d, stdout %q, stderr %q, want 1, none and one line with the fix", code, &stdout, &stderr)
			}
		})
	}
}
