package table_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"outrigger.dev/orchestrator/internal/table"
)

// TestTextsThatControlATerminal has JSON and YAML of texts that others have written. Programs read the same texts.
func TestTextsThatControlATerminal(t *testing.T) {
	const hostile = "\x1b[2J\a\u007f\u009b31m\u0085\u200b\u202e\u2066 – ja ✗ \U0001f600"
	for _, format := range []string{table.FormatJSON, table.FormatYAML} {
		var out bytes.Buffer
		if err := table.Print(table.Out{Writer: &out}, format, map[string]string{"a": hostile}, nil); err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(out.String(), func(r rune) bool {
			return r != '\n' && (unicode.IsControl(r) || format == table.FormatJSON && !unicode.IsPrint(r))
		}); i >= 0 {
			t.Errorf("%s: %q", format, out.String())
		}
		if format == table.FormatJSON {
			var back map[string]string
			if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["a"] != hostile {
				t.Errorf("%v, %q", err, back["a"])
			}
		}
	}
}
