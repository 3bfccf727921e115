package model

import (
	"slices"
	"strings"

	"outrigger.dev/pkg/config/strict"
)

// parent returns the section that contains a key. The names of MIG profiles have dots, so that
// "mig.1g.10gb" is directly below "mig".
func parent(key string) (string, bool) {
	if strings.HasPrefix(key, "mig.") {
		return "mig", true
	}
	i := strings.LastIndex(key, ".")
	if i < 0 {
		return "", false
	}
	return key[:i], true
}

// sourcesOf reads the sources: a list of texts, each with the keys of its figures.
func sourcesOf(v strict.Value) map[string]string {
	sources := map[string]string{}
	for _, entry := range v.List() {
		e := entry.Map("from", "for")
		from, keys := e.Get("from"), e.Get("for")
		if !from.Set() {
			from.Missing("the document or the measurement")
		}
		if !keys.Set() {
			keys.Missing("the list of the keys whose figures it has, such as [powerW.max, mig]")
		}
		text := textOf(from, maxSource)
		for _, k := range keys.List() {
			key, _ := k.Text()
			switch _, twice := sources[key]; {
			case twice:
				k.Fail("%s has two sources: remove one", key)
			case !slices.Contains(sections(), strings.SplitN(key, ".", 2)[0]): // the first word
				k.Bad("a key of this file, such as powerW.max or mig.1g.10gb")
			default:
				sources[key] = text
			}
		}
	}
	return sources
}

// sections returns the keys that have figures.
func sections() []string {
	return []string{"product", "brand", "architecture", "computeCapability", "server", "pci", "memoryMiB", "processors", "engines", "powerW", "clocksMHz", "temperatureC", "firmware", "mig"}
}
