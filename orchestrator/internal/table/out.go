package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

// The formats of Print.
const (
	FormatTable = "table"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
)

// Formats returns the formats of Print.
func Formats() []string { return []string{FormatTable, FormatJSON, FormatYAML} }

// Out is an output for people.
type Out struct {
	io.Writer
	// Width and Height are the size of the terminal in characters, or 0 if the output is not a terminal.
	Width, Height int
	// Colour permits colours.
	Colour bool
}

// For returns the output w. If w is a terminal, its size limits tables, and texts have colours, unless the environment
// variable NO_COLOR is set (no-color.org) or TERM is "dumb".
func For(w io.Writer) Out {
	file, is := w.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) {
		return Out{Writer: w}
	}
	out := Out{Writer: w, Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, height, err := term.GetSize(int(file.Fd())); err == nil {
		out.Width, out.Height = width, height
	}
	return out
}

// Terminal reports whether the output is a terminal whose size is known.
func (o Out) Terminal() bool { return o.Width > 0 }

// Print prints v as JSON or YAML, without characters that control a terminal, or calls people for the format "table".
func Print(o Out, format string, v any, people func(Out) error) error {
	if format == FormatTable {
		return people(o)
	}
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	out := []byte(escaped(encoded.String()))
	if err == nil && format == FormatYAML {
		out, err = yaml.JSONToYAML(out) // it refuses control characters without escapes
	}
	if err == nil {
		_, err = o.Write(out)
	}
	if err != nil {
		return fmt.Errorf("print %s: %w", format, err)
	}
	return nil
}

// escaped returns JSON with escapes for the characters that JSON permits and that can control a terminal, such as U+009B. They are only
// in strings. YAML has no escapes in JSON's form for characters after U+FFFF, which control nothing.
func escaped(json string) string {
	var b strings.Builder
	for _, r := range json {
		if r == '\n' || r > 0xffff || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}
