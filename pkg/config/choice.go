package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Fallback is a way to choose a config file for a node that names none.
type Fallback string

// The fallbacks, with the words of the config manager of NVIDIA's device
// plugin.
const (
	// FallbackNamed takes the file that is called "default".
	FallbackNamed Fallback = "named"
	// FallbackSingle takes the only file that there is.
	FallbackSingle Fallback = "single"
	// FallbackEmpty takes no file.
	FallbackEmpty Fallback = "empty"
)

const fallbackName = "default"

func fallbacks() []Fallback { return []Fallback{FallbackNamed, FallbackSingle, FallbackEmpty} }

// Chooser chooses one of several config files for a node, of which a label
// says which one it wants.
type Chooser struct {
	// Default is the file of nodes without the label; empty for none.
	Default string
	// Fallbacks are tried in their order where there is no Default.
	Fallbacks []Fallback
}

// Check reports a fallback that is none.
func (c Chooser) Check() error {
	return words("fallback-strategies", c.Fallbacks, fallbacks())
}

// Choose returns which of the files in the folder is that of a node with the
// label's value, which is empty for a node without the label. An empty name is
// that of no file: nothing is set then.
//
// Names are those in a folder that Kubernetes mounts: those that start with
// ".." are its own and no config.
func (c Chooser) Choose(label string, files []string) (string, error) {
	var names []string
	for _, f := range files {
		if !strings.HasPrefix(f, "..") {
			names = append(names, f)
		}
	}
	slices.Sort(names)
	there := "there is " + oneOf(names)
	if len(names) == 0 {
		there = "there is none"
	}
	switch {
	case label != "" && slices.Contains(names, label):
		return label, nil
	case label != "":
		return "", fmt.Errorf("choose config: the node's label asks for %q: %s", label, there)
	case c.Default != "" && slices.Contains(names, c.Default):
		return c.Default, nil
	case c.Default != "":
		return "", fmt.Errorf("choose config: --default-config asks for %q: %s", c.Default, there)
	}
	for _, f := range c.Fallbacks {
		switch {
		case f == FallbackNamed && slices.Contains(names, fallbackName):
			return fallbackName, nil
		case f == FallbackSingle && len(names) == 1:
			return names[0], nil
		case f == FallbackEmpty:
			return "", nil
		}
	}
	if len(c.Fallbacks) == 0 {
		return "", errors.New("choose config: the node has no label that names one, and there is neither --default-config nor --fallback-strategies")
	}
	return "", fmt.Errorf("choose config: the node has no label that names one, and none of the fallbacks %s fits: %s; set --default-config, or label the node",
		oneOf(c.Fallbacks), there)
}
