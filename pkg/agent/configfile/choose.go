package configfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/text"
)

// The strategies that choose the config file of a node without the label. NVIDIA's config manager
// for the device plugin has the same values.
const (
	// fallbackNamed selects the file named "default".
	fallbackNamed = "named"
	// fallbackSingle selects the only file of the folder.
	fallbackSingle = "single"
	// fallbackEmpty selects no file.
	fallbackEmpty = "empty"
)

const fallbackName = "default"

// chooser chooses one of several config files for a node.
type chooser struct {
	// preferred is the file for nodes without the label, or empty.
	preferred string
	// fallbacks are tried in order if preferred is empty.
	fallbacks []string
}

// check rejects unknown fallbacks.
func (c chooser) check() error {
	all := []string{fallbackNamed, fallbackSingle, fallbackEmpty}
	for _, f := range c.fallbacks {
		if !slices.Contains(all, f) {
			return cmdline.Usagef("flag --fallback-strategies: invalid value %q: must be %s", f, text.OneOf(all))
		}
	}
	return nil
}

// choose returns the name of the file for a node with this value of the label. The value is empty
// for a node without the label. The result is empty if the node gets no file.
func (c chooser) choose(label string, names []string) (string, error) {
	slices.Sort(names)
	found := "found " + strings.Join(names, ", ")
	if len(names) == 0 {
		found = "found no file"
	}
	switch {
	case label != "" && slices.Contains(names, label):
		return label, nil
	case label != "":
		return "", fmt.Errorf("choose config: the node's label names %q: %s", label, found)
	case c.preferred != "" && slices.Contains(names, c.preferred):
		return c.preferred, nil
	case c.preferred != "":
		return "", fmt.Errorf("choose config: --default-config names %q: %s", c.preferred, found)
	}
	for _, f := range c.fallbacks {
		switch {
		case f == fallbackNamed && slices.Contains(names, fallbackName):
			return fallbackName, nil
		case f == fallbackSingle && len(names) == 1:
			return names[0], nil
		case f == fallbackEmpty:
			return "", nil
		}
	}
	if len(c.fallbacks) == 0 {
		return "", errors.New("choose config: the node has no label that selects a config: label the node, or set --default-config or --fallback-strategies")
	}
	return "", fmt.Errorf("choose config: the node has no label that selects a config, and no file fits --fallback-strategies (%s): %s; label the node, or set --default-config",
		text.OneOf(c.fallbacks), found)
}
