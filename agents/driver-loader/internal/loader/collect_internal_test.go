package loader

import (
	"log/slog"
	"slices"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/payload/payloadtest"
	"outrigger.dev/pkg/cause"
)

func TestTheStoreKeepsWhatTheNodeRunsAndTheDriverBefore(t *testing.T) {
	store := payload.Store{Dir: t.TempDir(), Machine: "x86_64"}
	digests := map[string]string{}
	for _, version := range []string{"550.1", "560.1", "570.1", "580.1", "590.1"} {
		p, err := store.Import(t.Context(), payloadtest.Driver{Version: version}.Folder(t))
		assert.NilError(t, err)
		digests[version] = p.Digest
	}
	builder := &build.Builder{Places: build.Places{Store: store.Dir}}
	l := New(Config{Store: store.Dir, Builder: builder, Log: slog.New(slog.DiscardHandler)}, "x86_64")
	for _, test := range []struct {
		name string
		o    Observation
		want []string
	}{
		{"of a driver of the host, nothing is known", Observation{}, []string{"590.1", "580.1", "570.1", "560.1", "550.1"}},
		{
			"the root of 550.1 is still shown", Observation{Running: Driver{Digest: digests["580.1"]}, Shown: digests["550.1"]}, []string{"590.1", "580.1", "570.1", "550.1"},
		},
	} {
		test.o.Kernel = kernel.Kernel{Release: "6.1.0-1-amd64"}
		l.collect(test.o, Driver{})
		left, err := store.List()
		var got []string
		for _, p := range left {
			got = append(got, p.Version)
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v", test.name, got, err)
		}
	}
}

func TestAStepThatWaitsForNothingIsNoSuccess(t *testing.T) {
	if err := outcome(wait(), nil); !cause.Is(err, cause.Unexpected) {
		t.Error(err)
	}
	assert.NilError(t, outcome(Step{Kind: Done}, nil))
}
