package strict_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/config/strict"
)

// read reads a document of one shape with all that a Value can.
func read(data string) (got []string, err error) {
	doc := strict.Parse("c.yaml", []byte(data))
	m := doc.Root().Map("word", "on", "count", "list", "inner")
	if t, ok := m.Get("word").Text(); ok {
		got = append(got, "word "+t)
	}
	if b, ok := m.Get("on").Bool(); ok {
		got = append(got, fmt.Sprint("on ", b))
	}
	if n, ok := m.Get("count").Int(-1, 10); ok {
		got = append(got, fmt.Sprint("count ", n))
	}
	for _, entry := range m.Get("list").List() {
		if t, ok := entry.Text(); ok {
			got = append(got, fmt.Sprintf("list %s %t", t, entry.IsText()))
		}
	}
	inner := m.Get("inner").Map("word", "longWord")
	if v := inner.Get("word"); m.Get("inner").Set() && !v.Set() {
		v.Missing("a word")
	}
	return got, doc.Err()
}

func TestReads(t *testing.T) {
	want := []string{"word a", "on true", "count -1", "list 0 false", "list 1 true", "list 0:1 true"}
	for name, data := range map[string]string{
		"yaml":               "word: a\non: true\ncount: -1\nlist: [0, '1', 0:1]\ninner: {word: x}\n",
		"json":               `{"word": "a", "on": true, "count": -1, "list": [0, "1", "0:1"], "inner": {"word": "x"}}`,
		"json with tabs":     "{\n\t\"word\": \"a\",\n\t\"on\": true, \"count\": -1,\n\t\"list\": [0, \"1\", \"0:1\"]\n}",
		"carriage returns":   "word: a\r\non: True\r\ncount: -1\r\nlist:\r\n- 0\r\n- '1'\r\n- 0:1\r\n",
		"an alias":           "inner: {word: &w a}\nword: *w\non: true\ncount: -1\nlist: [0, '1', '0:1']\n",
		"old words for true": "word: a\non: YES\ncount: -1\nlist: [0, '1', '0:1']\n",
		"a merge key":        "inner: &i {word: a}\n<<: *i\non: on\ncount: -1\nlist: [0, '1', '0:1']\n",
		"a key goes before what is merged, and the first merged one before others": "inner: &i {word: x}\n<<: [{word: a, count: -1}, *i, {word: b, count: 5}]\non: true\ncount: -1\nlist: [0, '1', '0:1']\n",
		"a document marker": "---\nword: a\non: true\ncount: -1\nlist: [0, '1', '0:1']\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(data)
			assert.NilError(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
	for name, data := range map[string]string{
		"no content": "", "a comment": "# nothing\n", "null": "null\n", "nulls": "word: null\nlist: ~\non:\ninner: null\n", "an empty mapping": "{}",
	} {
		t.Run(name+" is nothing", func(t *testing.T) {
			if got, err := read(data); len(got) > 0 || err != nil {
				t.Errorf("read %q, %v, want nothing", got, err)
			}
		})
	}
}

func TestRejects(t *testing.T) {
	for name, tc := range map[string]struct {
		data string
		want []string
	}{
		"all errors at once, in the order of lines": {
			data: "on: 'yes'\nword: [a]\ncount: 11\nlist: a\ninner:\n  longWord: b\nworld: x\n",
			want: []string{
				`c.yaml:1: on: invalid value "yes": must be true or false`,
				`c.yaml:2: word: invalid value (a list): must be a text`,
				`c.yaml:3: count: invalid value "11": must be an integer from -1 to 10`,
				`c.yaml:4: list: invalid value "a": must be a list`,
				`c.yaml:5: inner.word: is missing: must be a word`,
				`c.yaml:7: world: unknown key: did you mean word?`,
			},
		},
		"a key twice": {
			data: "word: a\ninner:\n  word: b\n  word: c\nword: d\n",
			want: []string{
				"c.yaml:4: inner.word: duplicate key, first in line 3",
				"c.yaml:5: word: duplicate key, first in line 1",
			},
		},
		"an unknown key twice": {
			data: "colour: a\ncolour: b\n",
			want: []string{
				"c.yaml:1: colour: unknown key: must be one of word, on, count, list, inner",
				"c.yaml:2: colour: duplicate key, first in line 1",
			},
		},
		"another case": {data: "inner: {word: a, longword: b}", want: []string{"c.yaml:1: inner.longword: unknown key: did you mean longWord?"}},
		"a key that is none": {
			data: "? [a, b]\n: c\n", want: []string{"c.yaml:1: a key must be a word"},
		},
		"a key that breaks lines": {
			data: `{"a\nb": 1}`, want: []string{`c.yaml:1: "a\nb": unknown key: must be one of word, on, count, list, inner`},
		},
		"an unknown key in what is merged": {
			data: "inner: &i {word: a}\n<<: {world: b, <<: *i}\n", want: []string{"c.yaml:2: world: unknown key: did you mean word?"},
		},
		"merge keys twice":        {data: "<<: {word: a}\n<<: {word: b}\n", want: []string{`c.yaml:2: "<<": duplicate key, first in line 1`}},
		"a merge of no mapping":   {data: "<<: a\n", want: []string{`c.yaml:1: "<<": invalid value "a": must be a mapping or a list of mappings, such as *name`}},
		"a merge of a list":       {data: "<<: [a, {word: b}]\n", want: []string{`c.yaml:1: "<<"[0]: invalid value "a": must be a mapping, such as *name`}},
		"a mapping within itself": {data: "inner: &i {word: a, <<: *i}\n", want: []string{`c.yaml:1: inner."<<": the mapping contains itself`}},
		"not a mapping": {
			data: "- a\n", want: []string{"c.yaml:1: invalid value (a list): must be a mapping with the keys word, on, count, list, inner"},
		},
		"numbers that people read in several ways": {
			data: "count: 010\n", want: []string{`c.yaml:1: count: invalid value "010": must be an integer from -1 to 10`},
		},
		"a number in quotes":     {data: "count: '1'\n", want: []string{`c.yaml:1: count: invalid value "1": must be an integer from -1 to 10`}},
		"a number beyond all":    {data: "count: 99999999999999999999\n", want: []string{`c.yaml:1: count: invalid value "99999999999999999999": must be an integer from -1 to 10`}},
		"a truth in quotes":      {data: "on: 'true'\n", want: []string{`c.yaml:1: on: invalid value "true": must be true or false`}},
		"a mapping for a text":   {data: "word: {a: b}\n", want: []string{`c.yaml:1: word: invalid value (a mapping): must be a text`}},
		"a null in a list":       {data: "list:\n- a\n-\n", want: []string{"c.yaml:3: list[1]: is empty: remove the entry"}},
		"a list within itself":   {data: "list: &l [*l]\n", want: []string{"c.yaml:1: list[0]: invalid value (a list): must be a text"}},
		"a value that is long":   {data: "count: " + strings.Repeat("x", 100), want: []string{`c.yaml:1: count: invalid value "` + strings.Repeat("x", 60) + `"…: must be an integer from -1 to 10`}},
		"a second document":      {data: "word: a\n---\nword: b\n", want: []string{"c.yaml:2: a second document starts here: a file holds one config"}},
		"an alias of nothing":    {data: "word: *w\n", want: []string{"c.yaml: invalid YAML or JSON: unknown anchor 'w' referenced: correct the syntax, for example the indentation, quotes or brackets"}},
		"broken YAML":            {data: "word: a\n  b: c\n", want: []string{"c.yaml:2: invalid YAML or JSON: mapping values are not allowed in this context: correct the syntax, for example the indentation, quotes or brackets"}},
		"broken second document": {data: "word: a\n---\n[", want: []string{"c.yaml:3: invalid YAML or JSON: did not find expected node content: correct the syntax, for example the indentation, quotes or brackets"}},
		"broken JSON":            {data: "{\n\"word\": \"a\",\n", want: []string{"c.yaml:2: invalid YAML or JSON: did not find expected node content: correct the syntax, for example the indentation, quotes or brackets"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(tc.data)
			if err == nil {
				t.Fatalf("no error, want %q", tc.want)
			}
			if diff := cmp.Diff(tc.want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if one := (*strict.Error)(nil); !errors.As(err, &one) || one.File != "c.yaml" {
				t.Errorf("error is %#v, want one that names the file", one)
			}
		})
	}
}

// However wrong a document is, a person can read the errors, and a log holds them.
func TestManyErrors(t *testing.T) {
	for name, data := range map[string]string{
		"unknown keys":   strings.Repeat("replicas: 2\n", 28_000),
		"wrong entries":  "list: [" + strings.Repeat("[],", 40_000) + "]\n",
		"a long name":    "word: *" + strings.Repeat("x", 340_000),
		"one long value": "count: " + strings.Repeat("x", 340_000),
		"one long key":   strings.Repeat("x", 340_000) + ": 1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(data)
			if err == nil {
				t.Fatal("no error")
			}
			all := err.Error()
			if lines := strings.Count(all, "\n") + 1; lines > 21 || len(all) > 4096 {
				t.Errorf("the error has %d lines and %d bytes, want 21 and 4096 at most", lines, len(all))
			}
			if many := strings.HasPrefix(name, "unknown"); many != strings.HasSuffix(all, "\nc.yaml: 27980 more errors") {
				t.Errorf("the error ends with %q", all[max(0, len(all)-100):])
			}
		})
	}
}

// A short document must not become a long one by aliases.
func TestManyAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("list: &l [" + strings.Repeat("x,", 1000) + "]\ninner: {word: a}\n")
	data := b.String()
	doc := strict.Parse("c.yaml", []byte(data))
	m := doc.Root().Map("list", "inner")
	read := 0
	for range 1000 {
		read += len(m.Get("list").List())
	}
	if read > 50_000 {
		t.Errorf("%d values were read", read)
	}
	err := doc.Err()
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "more than 50000 values") {
		t.Errorf("error is %v, want one line", err)
	}
}

// A document that cannot be read lacks every value. Only the error in the syntax helps.
func TestABrokenDocumentHasOneError(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"broken YAML":            {"word: [", "c.yaml:1: invalid YAML or JSON: did not find expected node content: correct the syntax, for example the indentation, quotes or brackets"},
		"a second document":      {"word: a\n---\nword: b\n", "c.yaml:2: a second document starts here: a file holds one config"},
		"broken second document": {"word: a\n---\n[", "c.yaml:3: invalid YAML or JSON: did not find expected node content: correct the syntax, for example the indentation, quotes or brackets"},
		"a text":                 {"word a\n", `c.yaml:1: invalid value "word a": must be a mapping with the keys word`},
		"a list":                 {"- word: a\n", "c.yaml:1: invalid value (a list): must be a mapping with the keys word"},
		"a number":               {"1\n", `c.yaml:1: invalid value "1": must be a mapping with the keys word`},
	} {
		t.Run(name, func(t *testing.T) {
			doc := strict.Parse("c.yaml", []byte(tc.data))
			doc.Root().Map("word").Get("word").Missing("a word")
			assert.Error(t, doc.Err(), tc.want)
		})
	}
}

func TestRequire(t *testing.T) {
	for data, want := range map[string]string{
		"version: v1": "", "version: v2": `c.yaml:1: version: invalid value "v2": must be v1`, "other: 1": "c.yaml:1: version: is missing: must be v1",
	} {
		doc := strict.Parse("c.yaml", []byte(data))
		doc.Root().Map("version", "other").Get("version").Require("v1")
		if err := doc.Err(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
	}
}
