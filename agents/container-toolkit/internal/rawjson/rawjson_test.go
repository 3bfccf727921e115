package rawjson_test

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/rawjson"
)

func TestSet(t *testing.T) {
	const value = `{"path":"/x","args":[]}`
	for name, tc := range map[string]struct{ text, want string }{
		"an empty object": {"{}\n", "{\n    \"runtimes\": {\n        \"nvidia\": {\n            \"path\": \"/x\",\n            \"args\": []\n        }\n    }\n}\n"},
		"tabs, other keys and their order": {
			"{\n\t\"z\": 1,\n\t\"a\": [1, 2]\n}",
			"{\n\t\"z\": 1,\n\t\"a\": [1, 2],\n\t\"runtimes\": {\n\t\t\"nvidia\": {\n\t\t\t\"path\": \"/x\",\n\t\t\t\"args\": []\n\t\t}\n\t}\n}",
		},
		"one line":             {`{"a":1}`, `{"a":1,"runtimes":{"nvidia":{"path":"/x","args":[]}}}`},
		"one line with spaces": {`{ "a": 1, "b": 2 }`, `{ "a": 1, "b": 2, "runtimes": {"nvidia":{"path":"/x","args":[]}} }`},
		"a runtime of others": {
			"{\r\n  \"runtimes\" : {\r\n    \"kata\" : {}\r\n  }\r\n}",
			"{\r\n  \"runtimes\" : {\r\n    \"kata\" : {},\r\n    \"nvidia\" : {\r\n      \"path\": \"/x\",\r\n      \"args\": []\r\n    }\r\n  }\r\n}",
		},
		"the last of two keys counts": {
			`{"runtimes":{"a":1},"runtimes":{}}`, `{"runtimes":{"a":1},"runtimes":{"nvidia":{"path":"/x","args":[]}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rawjson.Set([]byte(tc.text), []string{"runtimes", "nvidia"}, value)
			assert.NilError(t, err)
			assert.Equal(t, string(got), tc.want)
			again, err := rawjson.Set(got, []string{"runtimes", "nvidia"}, value)
			assert.NilError(t, err)
			assert.Equal(t, rawjson.Get(again, "runtimes", "nvidia", "path"), `"/x"`)
		})
	}
}

func TestDelete(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"the only one":  {"{\n  \"x\": 1\n}", "{}"},
		"the first":     {`{"x": 1, "y": 2}`, `{"y": 2}`},
		"the last":      {`{"y": 2, "x": {"a": "}"}}`, `{"y": 2}`},
		"in the middle": {"{\n  \"a\": 0,\n  \"x\": [1],\n  \"y\": 2\n}", "{\n  \"a\": 0,\n  \"y\": 2\n}"},
		"none":          {`{"y": 2}`, `{"y": 2}`},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, string(rawjson.Delete([]byte(tc.text), "x")), tc.want)
		})
	}
}

func TestSetRejects(t *testing.T) {
	for name, tc := range map[string]struct{ text, err string }{
		"a list":             {`[]`, "cannot unmarshal array"},
		"a missing comma":    {"{\n\"a\": 1\n\"b\": 2}", "line 3: invalid character"},
		"null":               {"null", "it is null instead of an object"},
		"a value in the way": {`{"runtimes": 1}`, "runtimes is not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rawjson.Set([]byte(tc.text), []string{"runtimes", "nvidia"}, "1")
			assert.ErrorContains(t, err, tc.err)
		})
	}
}

func FuzzSet(f *testing.F) {
	f.Add(`{"a": [1, {"b": "\"}"}], "runtimes": {"x": -1.5e3}}`, "k")
	f.Add("{\n\t\"runtimes\" :{ }\n}", "")
	f.Add(`{"runtimes":{"k":1,"k":2}}`, "k")
	f.Fuzz(func(t *testing.T, text, name string) {
		got, err := rawjson.Set([]byte(text), []string{"runtimes", name}, `{"p":[]}`)
		if err != nil {
			return
		}
		var before, after map[string]any
		assert.NilError(t, json.Unmarshal([]byte(text), &before))
		assert.NilError(t, json.Unmarshal(got, &after), "%q", got)
		if rawjson.Get([]byte(text), "runtimes", name) == "" {
			var want any
			assert.NilError(t, json.Unmarshal([]byte(`{"p":[]}`), &want))
			key, _ := json.Marshal(name)
			var clean string
			_ = json.Unmarshal(key, &clean) // what is not UTF-8 is replaced
			runtimes, _ := after["runtimes"].(map[string]any)
			assert.DeepEqual(t, runtimes[clean], want)
			delete(runtimes, clean)
			if _, had := before["runtimes"]; !had {
				delete(after, "runtimes")
			}
			assert.DeepEqual(t, after, before)
		}
	})
}
