package rawtoml_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/rawtoml"
)

func TestSet(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want string
		path       []string
		value      string
	}{
		"a missing key is added to its table": {
			text: "# top\n[a.\"b.c\"]\n  x = 1 # one\n\n[d]\n", path: []string{"a", "b.c", "y"}, value: "true",
			want: "# top\n[a.\"b.c\"]\n  x = 1 # one\n  y = true # nvidia-container-toolkit\n\n[d]\n",
		},
		"a key keeps its comment, and the old value": {
			text: "[a]\nx = \"old\" # why\r\ny = 2", path: []string{"a", "x"}, value: `"new"`,
			want: "[a]\nx = \"new\" # why # nvidia-container-toolkit: was \"old\"\r\ny = 2",
		},
		"a value that is right is not touched": {
			text: "x = 1", path: []string{"x"}, value: "1", want: "x = 1",
		},
		"a key of the root goes before the tables": {
			text: "version = 2\n[a]\nx = 1\n", path: []string{"imports"}, value: `["p"]`,
			want: "version = 2\nimports = [\"p\"] # nvidia-container-toolkit\n[a]\nx = 1\n",
		},
		"a table that is missing is added at the end": {
			text: "x = 1", path: []string{"a", "y"}, value: "2",
			want: "x = 1\n# >>> nvidia-container-toolkit (remove with: nvidia-ctk runtime unconfigure)\n[a]\ny = 2\n# <<< nvidia-container-toolkit",
		},
		"a table of dotted keys is extended by a dotted key": {
			text: "[a]\nb.x = 1\n", path: []string{"a", "b", "y"}, value: "2",
			want: "[a]\nb.x = 1\nb.y = 2 # nvidia-container-toolkit\n",
		},
		"an array of tables is not the table": {
			text: "[[a]]\nx = 1\n", path: []string{"b", "x"}, value: "2",
			want: "[[a]]\nx = 1\n# >>> nvidia-container-toolkit (remove with: nvidia-ctk runtime unconfigure)\n[b]\nx = 2\n# <<< nvidia-container-toolkit\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rawtoml.Set([]byte(tc.text), tc.path, tc.value)
			assert.NilError(t, err)
			assert.Equal(t, string(got), tc.want)
			back, err := rawtoml.Strip(got)
			assert.NilError(t, err)
			assert.Equal(t, string(back), tc.text)
		})
	}
}

func TestInsertAndRemove(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"a table":                    {"[a.b]\n  y = [\n 1,\n]\n[c]\n", "[a.b]\n  y = [\n 1,\n]\n  x = 1\n[c]\n"},
		"a table of dotted keys":     {"[a]\nb.y = 1\n", "[a]\nb.y = 1\nb.x = 1\n"},
		"a table that is missing":    {"y = 1\n", "y = 1\n\n[a.b]\nx = 1\n"},
		"a file without a last line": {"[a.b]\ny = 1", "[a.b]\ny = 1\nx = 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rawtoml.Insert([]byte(tc.text), []string{"a", "b", "x"}, "1")
			assert.NilError(t, err)
			assert.Equal(t, string(got), tc.want)
			back, err := rawtoml.Remove(got, []string{"a", "b", "x"})
			assert.NilError(t, err)
			assert.Equal(t, string(back), regexp.MustCompile(`(?m)^ *(b\.)?x = 1\n`).ReplaceAllString(tc.want, ""))
		})
	}
}

func TestSetRejects(t *testing.T) {
	for name, tc := range map[string]struct{ text, err string }{
		"a table in one piece":        {"\na = {b = {c = 1}}\n", "line 2: a is an inline table, which cannot be extended: write it as [a]"},
		"a value with line breaks":    {"[a.b]\nx = \"\"\"\n\"\"\"\n", "line 2: the value of a.b.x has several lines: write it on one line"},
		"a file that is not TOML":     {"a = 1\nb =\n", "line 2: toml: unexpected character U+000A at start of value"},
		"a table that is there twice": {"[a]\n[a]\n", "line 2: toml: table a already exists"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rawtoml.Set([]byte(tc.text), []string{"a", "b", "x"}, "1")
			assert.ErrorContains(t, err, tc.err)
		})
	}
}

func TestStripKeepsWhatWasChangedSince(t *testing.T) {
	text := "version = 2\n[a]\nx = 1"
	got := add(t, []byte(text))
	edited := strings.Replace(string(got), "[a]\n", "# mine\n[a]\nz = 3 # three\n", 1) + "\n[mine]\nx = 9\n"
	back, err := rawtoml.Strip([]byte(edited))
	assert.NilError(t, err)
	assert.Equal(t, string(back), "version = 2\n# mine\n[a]\nz = 3 # three\nx = 1\n[mine]\nx = 9\n")
}

func TestStripRejectsDamagedMarks(t *testing.T) {
	got := add(t, []byte("[a]\nx = 1\n"))
	i := strings.LastIndex(string(got), "# <<<")
	_, err := rawtoml.Strip(got[:i])
	assert.ErrorContains(t, err, "is missing: remove them by hand")
}

func TestLists(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"an empty list":                  {"x = []\n", "x = [\"p\"]\n"},
		"a list":                         {"x = ['a', \"b\"] # c\n", "x = ['a', \"b\", \"p\"] # c\n"},
		"a list with a comma at the end": {"x = [\n  'a', # c\n]\n", "x = [\n  'a', \"p\", # c\n]\n"},
		"a list that has it":             {"x = ['p']\n", "x = ['p']\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rawtoml.AddToList([]byte(tc.text), []string{"x"}, "p")
			assert.NilError(t, err)
			assert.Equal(t, string(got), tc.want)
			if tc.want == tc.text {
				return
			}
			back, err := rawtoml.RemoveFromList(got, []string{"x"}, "p")
			assert.NilError(t, err)
			assert.Equal(t, string(back), tc.text)
		})
	}
}

// add makes each kind of change.
func add(t testing.TB, text []byte) []byte {
	text, err := rawtoml.Set(text, []string{"version"}, "3")
	assert.NilError(t, err)
	text, err = rawtoml.Set(text, []string{"a", "x"}, "7")
	assert.NilError(t, err)
	text, err = rawtoml.AddTables(text, rawtoml.Table{Path: []string{"p", "q.r"}, Values: map[string]any{
		"s": "a\"b", "i": int64(1), "l": []any{"x", int64(2)}, "t": map[string]any{"b": true},
	}})
	assert.NilError(t, err)
	return text
}

// words build random documents of the shapes that configs have.
var words = []string{
	"version = 2\n", "version = 2 # two\r\n", "\n", "# comment\n", "root = '/x'\n", "imports = [\n 'a',\n]\n",
	"[a]\n", "  [a.b]\n", "[a.\"c.d\"]\n", "[[e]]\n", "x = 1\n", "\ty = \"s # no comment\" # c\n", "z = {k = 1}\n", "m = \"\"\"\n[a]\n\"\"\"\n", "f.g = 1\n",
}

func TestRandomDocumentsComeBackByteForByte(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	done := 0
	for range 20000 {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(words[r.IntN(len(words))])
		}
		text := b.String()
		if r.IntN(3) == 0 {
			text = strings.TrimSuffix(text, "\n")
		}
		if roundTrip(t, []byte(text)) {
			done++
		}
	}
	assert.Assert(t, done > 1000, "only %d documents were valid", done)
}

// roundTrip changes a document and strips it. It reports false for one that is rejected.
func roundTrip(t testing.TB, text []byte) bool {
	var before, after map[string]any
	if toml.Unmarshal(text, &before) != nil || strings.Contains(string(text), "nvidia-container-toolkit") {
		return false
	}
	changed, err := rawtoml.Set(text, []string{"a", "x"}, "7")
	if err == nil {
		changed, err = rawtoml.AddTables(changed, rawtoml.Table{Path: []string{"a", "n"}, Values: map[string]any{"v": "w"}})
	}
	if err != nil {
		return false
	}
	assert.NilError(t, toml.Unmarshal(changed, &after), "%q", changed)
	a, _ := after["a"].(map[string]any)
	assert.Equal(t, a["x"], int64(7), "%q", changed)
	back, err := rawtoml.Strip(changed)
	assert.NilError(t, err, "%q", changed)
	assert.Equal(t, string(back), string(text), "%q", changed)
	return true
}

func FuzzRoundTrip(f *testing.F) {
	for _, w := range words {
		f.Add(w + "[a]\nx = 1")
	}
	f.Fuzz(func(t *testing.T, text string) { roundTrip(t, []byte(text)) })
}
