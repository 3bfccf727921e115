package dockerfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/images/internal/dockerfile"
)

func parse(text string) (dockerfile.Recipe, error) {
	return dockerfile.Parse(strings.NewReader(text), dockerfile.Options{
		Path: "images/x/Dockerfile",
		Args: map[string]string{"VERSION": "26.11.0"},
	})
}

func TestParseReadsTheFinalStage(t *testing.T) {
	got, err := parse(`# syntax is the plain one
FROM golang:1.26 AS build
RUN go build -o /out/x .
FROM debian AS base
RUN /rootfs.sh /rootfs
FROM scratch
ARG VERSION=dev
ARG OS_BASE=debian12
LABEL title="the x" \
      version="${VERSION}-${OS_BASE}"
LABEL licenses=Apache-2.0
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

func TestParseRejectsUnsupportedInstructions(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"a command that must run":     {"FROM scratch\nRUN true\n", []string{"images/x/Dockerfile:2", "RUN", "earlier stage"}},
		"a base image":                {"FROM debian\n", []string{":1", "FROM debian", "FROM scratch"}},
		"a file of the context":       {"FROM scratch\nCOPY x /x\n", []string{":2", "COPY --from=STAGE"}},
		"a folder outside of it":      {"FROM scratch\nCOPY ../x/ /x/\n", []string{":2", "folder of the repository"}},
		"a folder as a file":          {"FROM scratch\nCOPY x/ /x\n", []string{":2", "folder of the repository"}},
		"several sources":             {"FROM debian AS b\nFROM scratch\nCOPY --from=b /x /y /z/\n", []string{":3", "COPY --from=STAGE"}},
		"an owner":                    {"FROM debian AS b\nFROM scratch\nCOPY --from=b --chown=1:1 /x /x\n", []string{":3", "owner"}},
		"a relative path":             {"FROM debian AS b\nFROM scratch\nCOPY --from=b /x usr/x\n", []string{":3", "absolute"}},
		"an archive from the network": {"FROM scratch\nADD https://example.org/x /x\n", []string{":2", "ADD"}},
		"a folder to work in":         {"FROM scratch\nWORKDIR /x\n", []string{":2", "WORKDIR"}},
		"an entrypoint for a shell":   {"FROM scratch\nENTRYPOINT x --flag\n", []string{":2", "ENTRYPOINT", "no shell"}},
		"a variable that is not set":  {"FROM scratch\nLABEL v=$REVISION\n", []string{":2", "REVISION", "ARG"}},
		"all faults at once":          {"FROM scratch\nRUN true\nVOLUME /x\n", []string{":2: RUN", ":3: VOLUME"}},
		"no stage":                    {"# nothing\n", []string{"images/x/Dockerfile"}},
		"a word that is no command":   {"FROM scratch\nFETCH x\n", []string{"images/x/Dockerfile", "FETCH"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(tc.text)
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
