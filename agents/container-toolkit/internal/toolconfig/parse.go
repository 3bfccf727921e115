package toolconfig

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"outrigger.dev/pkg/text"
)

// Parse returns the configuration in a config.toml. Missing keys have their defaults. It returns
// a warning for each unknown key. An error names each key that is not valid, with its line.
func Parse(data []byte) (*Config, []string, error) {
	r := newReader()
	if err := walk(data, r.entry); err != nil {
		return nil, nil, err
	}
	r.check()
	if len(r.problems) > 0 {
		return nil, nil, errors.New(strings.Join(r.problems, "; "))
	}
	return r.config, r.warnings, nil
}

// reader sets the fields of a Config.
type reader struct {
	config   *Config
	fields   map[string]field
	warnings []string
	problems []string
	// seen has the keys that were read.
	seen map[string]entry
}

func newReader() *reader {
	r := &reader{config: Default(), seen: map[string]entry{}}
	r.fields = r.config.fields()
	return r
}

// entry sets the field of a key. It returns no error, so that all keys are read.
func (r *reader) entry(e entry) error {
	f, known := r.fields[e.key]
	if !known {
		r.warnings = append(r.warnings, fmt.Sprintf("line %d: unknown key %s is ignored: correct or remove it", e.lineNumber(), text.Printable(e.key)))
		return nil
	}
	if before, ok := r.seen[e.key]; ok {
		r.problems = append(r.problems, fmt.Sprintf("line %d: key %s is in line %d already: remove one", e.lineNumber(), e.key, before.lineNumber()))
		return nil
	}
	r.seen[e.key] = e
	if err := f.set(e.value); err != nil {
		r.problems = append(r.problems, fmt.Sprintf("line %d: key %s: %s", e.lineNumber(), e.key, err))
	}
	return nil
}

// check checks the values that are allowed.
func (r *reader) check() {
	c := r.config
	if l := c.CLI.Ldconfig; l != "" && !c.Features.AllowLdconfigFromContainer {
		if path, host := cutHost(l); !host {
			r.invalid("nvidia-container-cli.ldconfig",
				fmt.Errorf("%q would run a program of the container with the rights of the host: use \"@%s\", the program of the host", l, path))
		}
	}
	if len(c.Runtime.Runtimes) == 0 {
		r.invalid("nvidia-container-runtime.runtimes", errors.New(`the list is empty: use ["runc", "crun"]`))
	}
	for _, v := range []struct {
		key, value string
		allowed    []string
	}{
		{"nvidia-container-runtime.mode", c.Runtime.Mode, Modes()},
		{"nvidia-container-runtime.log-level", strings.ToLower(c.Runtime.LogLevel), []string{"trace", "debug", "info", "warning", "warn", "error", "fatal", "panic"}},
		{"nvidia-container-runtime.modes.legacy.cuda-compat-mode", c.Runtime.CUDACompatMode, []string{"ldconfig", "mount", "hook", "disabled"}},
	} {
		if !slices.Contains(v.allowed, v.value) {
			r.invalid(v.key, fmt.Errorf("%q is not allowed: use %s", text.Printable(v.value), text.OneOf(v.allowed)))
		}
	}
}

// invalid records the problem with the value of a key.
func (r *reader) invalid(key string, err error) {
	r.problems = append(r.problems, fmt.Sprintf("line %d: key %s: %s", r.seen[key].lineNumber(), key, err))
}

// cutHost removes the "@" that marks a path on the host.
func cutHost(path string) (string, bool) { return strings.CutPrefix(path, "@") }

// entry is a key with its value. The offsets are in the file.
type entry struct {
	// key is the names of the tables and of the key, joined by dots.
	key   string
	value *unstable.Node
	// file is the whole document.
	file []byte
	// start is the offset of the key, from and to are the offsets of its value.
	start, from, to int
	// inline is true for a key in an inline table.
	inline bool
}

// lineNumber returns the line of the key. The first line is 1.
func (e entry) lineNumber() int { return 1 + bytes.Count(e.file[:e.start], []byte("\n")) }

// walk calls visit for each key of a document that has a value, in the order of the file.
func walk(data []byte, visit func(entry) error) error {
	p := unstable.Parser{}
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		node := p.Expression()
		if node.Kind != unstable.KeyValue {
			table = keyOf(node, "")
			continue
		}
		if err := visitKey(&p, node, table, visit); err != nil {
			return err
		}
	}
	return syntaxError(&p)
}

// visitKey visits a key, or the keys of the inline table in its value.
func visitKey(p *unstable.Parser, node *unstable.Node, table string, visit func(entry) error) error {
	key := keyOf(node, table)
	e := entry{key: key, value: node.Value(), file: p.Data(), start: int(node.Raw.Offset), to: int(node.Raw.Offset + node.Raw.Length)}
	if e.value.Kind != unstable.InlineTable {
		e.from = valueStart(p, node)
		return visit(e)
	}
	for it := e.value.Children(); it.Next(); {
		if it.Node().Kind != unstable.KeyValue {
			continue
		}
		inside := func(e entry) error { e.inline = true; return visit(e) }
		if err := visitKey(p, it.Node(), key, inside); err != nil {
			return err
		}
	}
	return nil
}

// valueStart returns the offset of the value of a key.
func valueStart(p *unstable.Parser, node *unstable.Node) int {
	end := node.Raw.Offset
	for it := node.Key(); it.Next(); {
		end = it.Node().Raw.Offset + it.Node().Raw.Length
	}
	rest := p.Data()[end:]
	equals := bytes.IndexByte(rest, '=')
	after := rest[equals+1:]
	return int(end) + equals + 1 + len(after) - len(bytes.TrimLeft(after, " \t"))
}

// keyOf returns the full key of a node in a table.
func keyOf(node *unstable.Node, table string) string {
	var b strings.Builder
	b.WriteString(table)
	for it := node.Key(); it.Next(); {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.Write(it.Node().Data)
	}
	return b.String()
}

func syntaxError(p *unstable.Parser) error {
	var parse *unstable.ParserError
	switch err := p.Error(); {
	case err == nil:
		return nil
	case errors.As(err, &parse) && len(parse.Highlight) > 0:
		return fmt.Errorf("line %d: %s: correct the TOML in this line", p.Shape(p.Range(parse.Highlight)).Start.Line, parse.Message)
	default:
		return err
	}
}
