package contract

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		file    string
		want    map[string]string
		wantErr string
	}{
		"bare and quoted values":         {file: "A=1\nB='two words'\nC='it'\\''s'\nD=\n", want: map[string]string{"A": "1", "B": "two words", "C": "it's", "D": ""}},
		"comments, blank lines, exports": {file: "# NVIDIA\n\n  export A=1  \nB=2", want: map[string]string{"A": "1", "B": "2"}},
		"the last of two wins":           {file: "A=1\nA=2\n", want: map[string]string{"A": "2"}},
		"keys of a later version":        {file: "OUTRIGGER_NEW=1\n", want: map[string]string{"OUTRIGGER_NEW": "1"}},
		"an equals sign in the value":    {file: "A=b=c\n", want: map[string]string{"A": "b=c"}},
		"quotes of another program":      {file: "A=\"x\"\nB='\nC=\"$(reboot)\"\n", want: map[string]string{"A": `"x"`, "B": "'", "C": `"$(reboot)"`}},
		"no equals sign":                 {file: "A\n", wantErr: "line 1 is not KEY=value"},
		"a key that shells reject":       {file: "A=1\nA-B=1\n", wantErr: "line 2 is not KEY=value"},
		"no time":                        {file: "OUTRIGGER_TIME=now\n", wantErr: `value of OUTRIGGER_TIME: "now" is not a time`},
		"no truth":                       {file: "OUTRIGGER_HELD=maybe\n", wantErr: `value of OUTRIGGER_HELD: "maybe" is not true or false`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, _, err := parse([]byte(tc.file))
			msg := ""
			if err != nil {
				msg, got = err.Error(), nil
			}
			if msg != tc.wantErr {
				t.Fatalf("want error %q, got %q", tc.wantErr, msg)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzParse asks that what was understood can be written, and is understood the
// same again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\n", "A='it'\\''s'\n", "export A=\"b c\"", "# x\n\nA=", "A=\xff",
		"OUTRIGGER_BOOT_ID=b\nOUTRIGGER_TIME=2026-11-21T10:00:00.5Z\nOUTRIGGER_HELD=true\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		values, stamp, err := parse(data)
		if err != nil {
			return
		}
		if y := stamp.Time.UTC().Year(); y < 0 || y > 9999 {
			return // a zone took it out of what RFC 3339 can say
		}
		again, err := format(values, stamp)
		if err != nil {
			t.Fatalf("format what was parsed: %v", err)
		}
		values2, stamp2, err := parse(again)
		if err != nil {
			t.Fatalf("parse what was formatted: %v\n%s", err, again)
		}
		stamp.Time, stamp2.Time = stamp.Time.UTC().Round(0), stamp2.Time.UTC().Round(time.Duration(0))
		if diff := cmp.Diff(values, values2); diff != "" {
			t.Errorf("values (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(stamp, stamp2); diff != "" {
			t.Errorf("stamp (-first +second):\n%s", diff)
		}
	})
}
