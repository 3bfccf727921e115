package app

import (
	"strings"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/text"
)

// maxCondition is the largest size of the message of a condition, in bytes.
const maxCondition = 1024

// optionalCondition returns the condition for the optional modules of a node whose driver works. It is nil if
// no optional module is selected, or if the node has the hardware for none of them. Of several causes, the
// first one is the reason. While the driver does not work, the condition is not known.
func optionalCondition(s loader.Step) (c *nodestate.Condition, known bool) {
	if s.Kind != loader.Done {
		return nil, false
	}
	var loaded, missing []string
	reason := "Loaded"
	for _, m := range s.Optional {
		switch {
		case m.Loaded:
			loaded = append(loaded, m.Module)
		case m.Cause != nil:
			if len(missing) == 0 {
				reason = string(m.Cause.Code)
			}
			missing = append(missing, m.Cause.Line())
		}
	}
	switch {
	case len(missing) > 0:
		return &nodestate.Condition{
			Type: upgrade.OptionalCondition, Status: "False", Reason: reason, Message: text.Cut(strings.Join(missing, "; "), maxCondition),
		}, true
	case len(loaded) > 0:
		return &nodestate.Condition{Type: upgrade.OptionalCondition, Status: "True", Reason: reason, Message: strings.Join(loaded, ", ")}, true
	}
	return nil, true
}
