package pool_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/pool"
)

func TestParseLabel(t *testing.T) {
	for value, want := range map[string]pool.Simulation{
		"h100-80x8":  {Model: "h100-80", GPUs: 8},
		"a100-40x16": {Model: "a100-40", GPUs: 16},
		"h200":       {Model: "h200", GPUs: pool.DefaultGPUs},
	} {
		got, err := pool.ParseLabel(value, nil)
		assert.NilError(t, err)
		assert.DeepEqual(t, got, want)
	}
	for value, want := range map[string]string{
		"":                              "is unknown",
		"h900x8":                        `model "h900" is unknown`,
		"/etc/passwd":                   `model "/etc/passwd" is unknown`,
		"h100-80x0":                     "0 GPUs: want 1 to 16",
		"h100-80x17":                    "17 GPUs: a node has at most 16",
		"h100-80x":                      "is unknown",
		"h100-80x999999999999999999999": "count",
	} {
		_, err := pool.ParseLabel(value, nil)
		assert.ErrorContains(t, err, want)
	}
}

func TestParseNamesAllMistakes(t *testing.T) {
	_, err := pool.Parse(`[
		{"name": "a", "model": "h900", "gpus": 99, "imexChannels": 4000, "latency": "soon", "driverVersion": "new"},
		{"model": "h100-80", "mig": ["9g.10gb", "1g.10gb@x"]},
		{"name": "c", "model": "h100-80", "mig": ["1g.10gb", "7g.1gb"], "fabric": "completed:rack"},
		{"name": "d", "model": "a100-80", "fabric": "completed:rack.0"}
	]`, nil)
	for _, want := range []string{
		`pool a: `, `99 GPUs`, `4000 IMEX channels`, `model "h900" is unknown`, `latency "soon"`, `driver version "new"`,
		`pool 1: instance "1g.10gb@x"`, `pool c: mig: `, "7g.1gb", `fabric "completed:rack": want`, "pool d: fabric: a100-80 has none",
	} {
		assert.ErrorContains(t, err, want)
	}
	_, err = pool.Parse(`[{"models": "h100-80"}]`, nil)
	assert.ErrorContains(t, err, "models")
	_, err = pool.Parse(`[] []`, nil)
	assert.ErrorContains(t, err, "one list")
}

func TestChoose(t *testing.T) {
	pools, err := pool.Parse(`[
		{"name": "big", "nodeSelector": {"size": "big", "zone": "a"}, "model": "h200"},
		{"name": "any", "nodeSelector": {"size": "big"}, "model": "a100-40", "gpus": 2, "mig": ["3g.20gb"]}
	]`, nil)
	assert.NilError(t, err)
	for name, c := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"no label":                  {map[string]string{"size": "small"}, ""},
		"the first pool":            {map[string]string{"size": "big", "zone": "a"}, "h200"},
		"a pool with fewer labels":  {map[string]string{"size": "big"}, "a100-40"},
		"the label beats each pool": {map[string]string{"size": "big", pool.Label: "a30x1"}, "a30"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pool.Choose(c.labels, pools, nil)
			assert.NilError(t, err)
			model := ""
			if got != nil {
				model = got.Model
			}
			assert.Equal(t, model, c.want)
		})
	}
	_, err = pool.Choose(map[string]string{pool.Label: "h900x8"}, pools, nil)
	if err == nil || !strings.HasSuffix(err.Error(), "write MODELxCOUNT, such as h100-80x8, or remove the label") {
		t.Errorf("error %v does not say what to write", err)
	}
}
