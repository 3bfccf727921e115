package dockerfile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/images/internal/dockerfile"
)

// read reads a Dockerfile with this text.
func read(t *testing.T, text string) (dockerfile.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dockerfile.Read(path)
}

// recipe reads the recipe of the image x.
func recipe(t *testing.T, text string) (dockerfile.Recipe, error) {
	t.Helper()
	file, err := read(t, text)
	if err != nil {
		return dockerfile.Recipe{}, err
	}
	return file.Recipe("x", map[string]string{"VERSION": "26.11.0"})
}

func TestImagesAreTheStagesThatStartFromImage(t *testing.T) {
	file, err := read(t, "FROM golang AS build\nFROM scratch AS image\nFROM image AS y\nFROM build AS z\nFROM image AS x\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := file.Images(); !slices.Equal(got, []string{"y", "x"}) {
		t.Errorf("the images are %v, want y and x", got)
	}
}

func TestRecipeHasTheStageOfAnImage(t *testing.T) {
	got, err := recipe(t, `# syntax is the plain one
FROM golang:1.26 AS build
RUN go build -o /out/x .
FROM debian AS base
RUN /rootfs.sh /rootfs
FROM scratch AS image
ARG VERSION=dev
ARG OS_BASE=debian12
LABEL version="${VERSION}-${OS_BASE}"
LABEL licenses=Apache-2.0
FROM image AS w
COPY --from=build /out/w /usr/bin/w
LABEL title="the w"
FROM image AS x
LABEL title="the x"
ENV A=1 B="two words"
COPY --from=base /rootfs/ /
COPY --from=build --link /out/x /usr/bin/x
COPY images/x/names/ /usr/bin/
USER 65532:65532
ENTRYPOINT ["/usr/bin/x"]
CMD ["--help"]
`)
	if err != nil {
		t.Fatal(err)
	}
	want := dockerfile.Recipe{
		Copies: []dockerfile.Copy{
			{Stage: "base", From: "/rootfs/", To: "/"},
			{Stage: "build", From: "/out/x", To: "/usr/bin/x"},
			{From: "images/x/names/", To: "/usr/bin/"},
		},
		Labels:     map[string]string{"title": "the x", "version": "26.11.0-debian12", "licenses": "Apache-2.0"},
		Env:        []string{"A=1", "B=two words"},
		User:       "65532:65532",
		Entrypoint: []string{"/usr/bin/x"},
		Cmd:        []string{"--help"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recipe (-want +got):\n%s", diff)
	}
}

func TestRecipeRejectsUnsupportedInstructions(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"a command that must run":      {"FROM scratch AS image\nFROM image AS x\nRUN true\n", []string{"/Dockerfile:3", "RUN", "earlier stage"}},
		"a base image":                 {"FROM scratch AS image\nFROM debian AS x\n", []string{":2", "FROM debian", "FROM image"}},
		"what images share has a base": {"FROM debian AS image\nFROM image AS x\n", []string{":1", "FROM debian", "FROM scratch"}},
		"no stage of the image":        {"FROM scratch AS image\nFROM image AS w\n", []string{"/Dockerfile has no stage x", "FROM image AS x"}},
		"no stage that images share":   {"FROM scratch AS x\n", []string{"has no stage image", "FROM scratch AS image"}},
		"a file of the context":        {"FROM scratch AS image\nFROM image AS x\nCOPY x /x\n", []string{":3", "COPY --from=STAGE"}},
		"a folder outside of it":       {"FROM scratch AS image\nFROM image AS x\nCOPY ../x/ /x/\n", []string{":3", "folder of the repository"}},
		"a folder as a file":           {"FROM scratch AS image\nFROM image AS x\nCOPY x/ /x\n", []string{":3", "folder of the repository"}},
		"several sources":              {"FROM debian AS b\nFROM scratch AS image\nFROM image AS x\nCOPY --from=b /x /y /z/\n", []string{":4", "COPY --from=STAGE"}},
		"an owner":                     {"FROM debian AS b\nFROM scratch AS image\nFROM image AS x\nCOPY --from=b --chown=1:1 /x /x\n", []string{":4", "owner"}},
		"a relative path":              {"FROM debian AS b\nFROM scratch AS image\nFROM image AS x\nCOPY --from=b /x usr/x\n", []string{":4", "absolute"}},
		"an archive from the network":  {"FROM scratch AS image\nFROM image AS x\nADD https://example.org/x /x\n", []string{":3", "ADD"}},
		"a folder to work in":          {"FROM scratch AS image\nFROM image AS x\nWORKDIR /x\n", []string{":3", "WORKDIR"}},
		"an entrypoint for a shell":    {"FROM scratch AS image\nFROM image AS x\nENTRYPOINT x --flag\n", []string{":3", "ENTRYPOINT", "no shell"}},
		"a variable that is not set":   {"FROM scratch AS image\nFROM image AS x\nLABEL v=$REVISION\n", []string{":3", "REVISION", "ARG"}},
		"all faults at once":           {"FROM scratch AS image\nFROM image AS x\nRUN true\nVOLUME /x\n", []string{":3: RUN", ":4: VOLUME"}},
		"no stage":                     {"# nothing\n", []string{"/Dockerfile"}},
		"a word that is no command":    {"FROM scratch AS image\nFROM image AS x\nFETCH x\n", []string{"/Dockerfile", "FETCH"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := recipe(t, tc.text)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}
