package scenario

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"outrigger.dev/pkg/config/strict"
)

// parser parses the events of a file.
type parser struct{ Known }

// action is the key of an event that says what happens. A step has one.
type action struct {
	key string
	// gpu says whether the step names a GPU.
	gpu use
	// commands returns the commands. The value is valid if no error was reported.
	commands func(p parser, gpu string, v strict.Value) [][]string
}

// use says whether an action has a GPU.
type use int

const (
	needed use = iota
	optional
	refused
)

func actions() []action {
	return []action{
		{"xid", needed, xid},
		{"lose", needed, lose},
		{"heal", needed, simple("heal")},
		{"load", needed, load},
		{"set", optional, set},
		{"mig", needed, mig},
		{"reset", needed, simple("reset")},
		{"plug", refused, plug},
		{"unplug", needed, simple("unplug")},
	}
}

// word matches the names of nodes, GPUs, fields and profiles. None of them looks like a flag.
var word = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9:._/+@-]*$`)

func (p parser) step(entry strict.Value) Step {
	keys := []string{"at", "node", "gpu"}
	for _, a := range actions() {
		keys = append(keys, a.key)
	}
	m := entry.Map(keys...)
	s := Step{At: duration(m.Get("at")), Line: entry.Line(), Node: name(m.Get("node"), "the name of a node")}
	gpu := name(m.Get("gpu"), "an index, a UUID, a PCI bus ID or the name of a device node, such as 3 or nvidia3")
	var found []action
	for _, a := range actions() {
		if m.Get(a.key).Set() {
			found = append(found, a)
		}
	}
	unknown := func(e strict.Entry) bool { return !slices.Contains(keys, e.Name) }
	if !entry.IsMap() || len(found) == 0 && slices.ContainsFunc(entry.Entries(), unknown) {
		return s // the mistake is reported
	}
	if len(found) != 1 {
		entry.Fail("has %d actions: must have exactly one of %s", len(found), strings.Join(keys[3:], ", "))
		return s
	}
	a := found[0]
	if at := m.Get("gpu"); a.gpu == needed && !at.Set() {
		at.Missing("the GPU of " + a.key + ", such as 3")
	} else if a.gpu == refused && at.Set() {
		at.Fail("%s needs no GPU: remove gpu", a.key)
	}
	s.Commands = a.commands(p, gpu, m.Get(a.key))
	return s
}

func duration(v strict.Value) time.Duration {
	if !v.Set() {
		v.Missing("a duration since the start, such as 30s")
	}
	text, ok := v.Text()
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		v.Bad("a duration since the start, such as 30s or 1m30s")
	}
	return d
}

// name returns the text of a value that becomes a word of a command.
func name(v strict.Value, allowed string) string {
	text, ok := v.Text()
	if ok && !word.MatchString(text) {
		v.Bad(allowed)
	}
	return text
}

// simple returns the commands of an action without a value.
func simple(command string) func(parser, string, strict.Value) [][]string {
	return func(_ parser, gpu string, v strict.Value) [][]string {
		if on, ok := v.Bool(); ok && !on {
			v.Bad("true; remove the event to omit it")
		}
		return [][]string{{command, gpu}}
	}
}

func xid(_ parser, gpu string, v strict.Value) [][]string {
	code, _ := v.Int(1, math.MaxUint32)
	return [][]string{{"xid", gpu, strconv.Itoa(code)}}
}

func lose(_ parser, gpu string, v strict.Value) [][]string {
	switch text, _ := v.Text(); text {
	case "true":
		return [][]string{{"lose", gpu}}
	case "handle", "calls":
		return [][]string{{"lose", "--how", text, gpu}}
	default:
		v.Bad("true, handle (NVML returns no handle) or calls (calls with a handle fail)")
		return nil
	}
}

func plug(p parser, _ string, v strict.Value) [][]string {
	const allowed = "true or the name of a model"
	model := name(v, allowed)
	if model == "true" {
		return [][]string{{"plug"}}
	}
	if p.Models != nil && !slices.Contains(p.Models, model) {
		v.Bad(allowed + ": " + strings.Join(p.Models, ", "))
	}
	return [][]string{{"plug", "--model", model}}
}

func set(p parser, gpu string, v strict.Value) [][]string {
	command := []string{"set"}
	entries := v.Entries()
	for _, e := range entries {
		text, ok := e.Text()
		if ok && (text == "" || strings.ContainsFunc(text, unicode.IsSpace)) {
			e.Bad("a word or a number")
		}
		switch {
		case gpu == "" && e.Name != "driver" && e.Name != "latency" && !strings.HasSuffix(e.Name, ".return"):
			e.Fail("unknown setting: without gpu, must be driver, latency or SYMBOL.return; a value of a GPU needs gpu")
		case gpu != "" && p.Fields != nil && !slices.Contains(p.Fields, e.Name):
			e.Fail("unknown field: must be one of %s", strings.Join(p.Fields, ", "))
		case gpu != "":
			command = append(command, fmt.Sprintf("%s.%s=%s", gpu, e.Name, text))
		default:
			command = append(command, e.Name+"="+text)
		}
	}
	if v.IsMap() && len(entries) == 0 {
		v.Fail("is empty: must have settings, such as temperature: 85")
	}
	return [][]string{command}
}

// mig changes the layout of a GPU. The reset makes the mode active, and destroys other instances.
func mig(_ parser, gpu string, v strict.Value) [][]string {
	const allowed = "off, or a list of profiles, such as [3g.40gb, 3g.40gb]"
	mode := func(to string) [][]string {
		return [][]string{{"mig", "mode", gpu, to}, {"reset", "--takes", "0s", gpu}}
	}
	if !v.IsList() {
		if text, ok := v.Text(); ok && text != "off" && text != "false" {
			v.Bad(allowed)
		}
		return mode("off")
	}
	create := []string{"mig", "create", gpu}
	for _, e := range v.List() {
		create = append(create, name(e, "a profile, such as 3g.40gb"))
	}
	if len(create) == 3 { //nolint:mnd // no profile
		return mode("on")
	}
	return append(mode("on"), create)
}

func load(_ parser, gpu string, v strict.Value) [][]string {
	if !v.IsMap() {
		text, _ := v.Text()
		if text == "off" || text == "false" {
			return [][]string{{"load", gpu, "off"}}
		}
		if _, err := ParseRange(text, Percent); err != nil {
			v.Bad(`off, a percentage such as 75, a range such as 60-90, or a mapping with utilization and memory`)
		}
		return [][]string{{"load", gpu, text}}
	}
	m := v.Map("utilization", "memory")
	command := []string{"load"}
	if at := m.Get("memory"); at.Set() {
		text := name(at, "a quantity, such as 20Gi")
		if _, err := ParseMemory(text); err != nil {
			at.Bad("a quantity, such as 20Gi")
		}
		command = append(command, "--memory", text)
	}
	percent := "0"
	if at := m.Get("utilization"); at.Set() {
		percent = name(at, "a percentage such as 75, or a range such as 60-90")
		if _, err := ParseRange(percent, Percent); err != nil {
			at.Bad("a percentage such as 75, or a range such as 60-90")
		}
	}
	return [][]string{append(command, gpu, percent)}
}
