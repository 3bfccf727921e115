package text_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"outrigger.dev/pkg/text"
)

func TestPrintable(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"words":                      {"GPU is lost, 50 % – ja", "GPU is lost, 50 % – ja"},
		"a terminal's colours":       {"\x1b[31mred\a", "?[31mred?"},
		"lines":                      {"a\r\nb\tc\u2028d", "a??b?c?d"},
		"what turns text around":     {"a\u202eb\u200bc", "a?b?c"},
		"what is not UTF-8":          {"a\xff\xc3", "a??"},
		"the sign for what is wrong": {"a\ufffd", "a?"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text.Printable(tc.in); got != tc.want {
				t.Errorf("Printable(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func TestOneLine(t *testing.T) {
	for want, err := range map[string]error{
		"a; b":     errors.Join(errors.New("a"), errors.New("b")),
		"do: a; b": fmt.Errorf("do: %w", errors.Join(errors.New("a"), errors.New("b"))),
		"a; b c?d": errors.New("a\r\nb\tc\u2028d"),
		"?[31mred": errors.New("\x1b[31mred"),
	} {
		if got := text.OneLine(err); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", err, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		most int
		want string
	}{
		"what is short":                  {"short", 5, "short"},
		"what is long":                   {"longer", 5, "lo..."},
		"a character that would part":    {"aä€🙂", 6, "aä..."},
		"what is not UTF-8":              {"a\xffb", 9, "a?b"},
		"what is not UTF-8, and is long": {"a\xff\xffbcdef", 5, "a?..."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text.Cut(tc.in, tc.most); got != tc.want {
				t.Errorf("Cut(%q, %d) = %q, want %q", tc.in, tc.most, got, tc.want)
			}
		})
	}
}

func FuzzCut(f *testing.F) {
	f.Add("a long text of several words", 12)
	f.Add("ä€🙂\xff\xf0", 3)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = max(most%4096, 3)
		got := text.Cut(s, most)
		if len(got) > most || !utf8.ValidString(got) {
			t.Errorf("Cut(%q, %d) = %q of %d bytes", s, most, got, len(got))
		}
		if len(s) <= most && utf8.ValidString(s) && got != s || !strings.HasPrefix(strings.ToValidUTF8(s, "?"), strings.TrimSuffix(got, "...")) {
			t.Errorf("Cut(%q, %d) = %q, which is another text", s, most, got)
		}
	})
}

func TestOneOf(t *testing.T) {
	for want, words := range map[string][]string{
		"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"},
	} {
		if got := text.OneOf(words); got != want {
			t.Errorf("OneOf(%q) = %q, want %q", words, got, want)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var tail text.Tail
	for _, s := range []string{strings.Repeat("a", 3000), strings.Repeat("b", 2000), "end"} {
		if n, err := tail.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("Write() = %d, %v", n, err)
		}
	}
	if want := strings.Repeat("a", 45) + strings.Repeat("b", 2000) + "end"; tail.String() != want {
		t.Errorf("%d bytes are kept: %q", len(tail.String()), tail.String())
	}
}

func TestNearest(t *testing.T) {
	known := []string{"psa", "list", "migStrategy", "L"}
	for word, want := range map[string]string{
		"lsit": "list", "lists": "list", "LIST": "list", "migStrategi": "migStrategy", "migstrat": "", "a": "", "x": "", "": "",
	} {
		if got := text.Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
