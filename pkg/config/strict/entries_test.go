package strict_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/config/strict"
)

func TestEntries(t *testing.T) {
	for name, tc := range map[string]struct {
		data string
		want []string
		err  string
	}{
		"names in the order of the document": {data: "z: 1\na b: 2\n1g.5gb+me: 3\n", want: []string{"z=1", "a b=2", "1g.5gb+me=3"}},
		"json":                               {data: `{"z": 1, "a": 2}`, want: []string{"z=1", "a=2"}},
		"an own key goes first":              {data: "x: &x {a: 1, b: 2}\nb: 3\n<<: *x\n", want: []string{"x=", "b=3", "a=1"}},
		"a list of merges":                   {data: "x: &x {a: 1}\n<<: [*x, {a: 2, c: 3}]\n", want: []string{"x=", "a=1", "c=3"}},
		"an empty mapping":                   {data: "{}"},
		"nothing":                            {data: ""},
		"a null is no value":                 {data: "a:\n", want: []string{"a="}},
		"a name twice":                       {data: "a: 1\nb: 2\na: 3\n", want: []string{"a=1", "b=2"}, err: "c.yaml:3: a: duplicate key, first in line 1"},
		"a list":                             {data: "[a]", err: "c.yaml:1: invalid value (a list): must be a mapping"},
		"a key that is a mapping":            {data: "? {a: b}\n: c\nd: e\n", want: []string{"d=e"}, err: "c.yaml:1: a key must be a word"},
		"a mapping within itself":            {data: "x: &x\n  <<: *x\n", want: []string{"x="}, err: "c.yaml:2: x.\"<<\": the mapping contains itself"},
		"a merge of what is no map":          {data: "a: 1\n<<: b\n", want: []string{"a=1"}, err: `c.yaml:2: "<<": invalid value "b": must be a mapping or a list of mappings, such as *name`},
	} {
		t.Run(name, func(t *testing.T) {
			doc := strict.Parse("c.yaml", []byte(tc.data))
			var got []string
			for _, e := range doc.Root().Entries() {
				if e.IsMap() {
					e.Entries()
					got = append(got, e.Name+"=")
					continue
				}
				word, _ := e.Text()
				got = append(got, e.Name+"="+word)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			err := ""
			if e := doc.Err(); e != nil {
				err = e.Error()
			}
			if err != tc.err {
				t.Errorf("error %q, want %q", err, tc.err)
			}
		})
	}
}
