package pool_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/pool"
)

func models(t *testing.T, text string) pool.Models {
	t.Helper()
	m, err := pool.ParseModels(text)
	assert.NilError(t, err)
	return m
}

func TestOwnModels(t *testing.T) {
	own := models(t, `{"big": {"base": "h100-80", "product": "NVIDIA Big"}, "rtx4000": {"base": "l4"}, "l4": {"base": "l40s"}}`)
	pools, err := pool.Parse(`[{"nodeSelector": {"role": "a"}, "model": "big", "gpus": 2, "mig": ["3g.40gb"], "fabric": "completed"}]`, own)
	assert.NilError(t, err)
	for name, c := range map[string]struct {
		labels  map[string]string
		gpus    int
		product string
	}{
		"a pool":                       {map[string]string{"role": "a"}, 2, "NVIDIA Big"},
		"the label":                    {map[string]string{pool.Label: "bigx3"}, 3, "NVIDIA Big"},
		"a name that looks like more":  {map[string]string{pool.Label: "rtx4000"}, 8, "NVIDIA L4"},
		"such a name with a count":     {map[string]string{pool.Label: "rtx4000x2"}, 2, "NVIDIA L4"},
		"a product of the same name":   {map[string]string{pool.Label: "l4x1"}, 1, "NVIDIA L40S"},
		"a product that is not an own": {map[string]string{pool.Label: "a30x1"}, 1, "NVIDIA A30"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := pool.Choose(c.labels, pools, own)
			assert.NilError(t, err)
			spec, err := s.Spec("node")
			assert.NilError(t, err)
			assert.Equal(t, len(spec.GPUs), c.gpus)
			assert.Equal(t, spec.Own.Product, c.product)
		})
	}
}

// A mistake in a model concerns only the nodes that use it.
func TestOwnModelsWithMistakes(t *testing.T) {
	own := models(t, `{"bad": {"base": "l4", "powerW": {"max": "much"}, "colour": "red"}, "good": {"base": "l4"}}`)
	pools, err := pool.Parse(`[{"name": "a", "nodeSelector": {"role": "a"}, "model": "bad"}, {"nodeSelector": {"role": "b"}, "model": "good"},
		{"name": "c", "nodeSelector": {"role": "c"}, "model": "good", "gpus": 99, "mig": ["1g.5gb"]}]`, own)
	assert.NilError(t, err)
	for value, want := range map[string][]string{
		"a": {"pool a: models.bad.colour: unknown key", "models.bad.powerW.max: invalid value"},
		"c": {"pool c: 99 GPUs: a node has at most 16"},
	} {
		_, err = pool.Choose(map[string]string{"role": value}, pools, own)
		for _, w := range want {
			assert.ErrorContains(t, err, w)
		}
	}
	_, err = pool.Choose(map[string]string{"role": "b"}, pools, own)
	assert.NilError(t, err)
	assert.Equal(t, len(own.Mistakes()), 1)
	_, err = pool.Choose(map[string]string{pool.Label: "godx8"}, pools, own)
	assert.ErrorContains(t, err, `model "god" is unknown`)
	assert.ErrorContains(t, err, "; the own models are bad, good; write MODELxCOUNT")
	_, err = pool.Parse(`[{"model": "h900"}]`, own)
	assert.ErrorContains(t, err, "; the own models are bad, good")
	_, err = pool.ParseModels(`[]`)
	assert.ErrorContains(t, err, "want a mapping of models in JSON")
}

// Other values of a model are other GPUs.
func TestAChangedModelIsAnotherSimulation(t *testing.T) {
	choose := func(text string) *pool.Simulation {
		t.Helper()
		s, err := pool.Choose(map[string]string{pool.Label: "mine"}, nil, models(t, text))
		assert.NilError(t, err)
		return s
	}
	const text = `{"mine": {"base": "l4"}}`
	assert.Assert(t, choose(text).Equal(*choose(text)))
	assert.Assert(t, !choose(text).Equal(*choose(strings.ReplaceAll(text, "l4", "l40s"))))
}
