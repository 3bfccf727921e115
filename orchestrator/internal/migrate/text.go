package migrate

import (
	"fmt"
	"strings"
)

// Text returns the plan for people.
func (p *Plan) Text() string {
	var b strings.Builder
	if len(p.From) > 0 {
		fmt.Fprintf(&b, "Read: %s\n", strings.Join(p.From, ", "))
	}
	for _, unread := range p.Unread {
		fmt.Fprintf(&b, "Not read: %s\n", unread)
	}
	fmt.Fprintf(&b, "Taken over unchanged: %d values (-o yaml lists them)\n", len(p.Same))
	list(&b, "Changed", p.Changed)
	list(&b, "Ignored, because Outrigger does not need them", p.Ignored)
	list(&b, "Refused, because Outrigger does not have them", p.Refused)
	if lookup(p.Values, "global.registry") == nil {
		b.WriteString("\nMissing: global.registry, the registry with Outrigger's images: give --registry\n")
	}
	if len(p.Copy) > 0 {
		b.WriteString("\nCopy to the namespace of the agents:\n")
		for _, name := range p.Copy {
			fmt.Fprintf(&b, "  %s\n", name)
		}
	}
	b.WriteString("\nHand-overs, in this order:\n")
	for i, c := range p.Steps {
		fmt.Fprintf(&b, "  %d. %-18s %s\n", i+1, c.Name, c.Effect)
	}
	return b.String()
}

// list writes differences with a heading. It writes nothing for an empty list.
func list(b *strings.Builder, heading string, all []Difference) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s (%d):\n", heading, len(all))
	for _, d := range all {
		fmt.Fprintf(b, "  %s", d.Path)
		switch {
		case d.From != "" && d.To != "":
			fmt.Fprintf(b, ": %s → %s", d.From, d.To)
		case d.To != "":
			fmt.Fprintf(b, " → %s", d.To)
		case d.From != "":
			fmt.Fprintf(b, ": %s", d.From)
		}
		fmt.Fprintf(b, "\n      %s", d.Why)
		if d.Fix != "" {
			fmt.Fprintf(b, "; %s", d.Fix)
		}
		b.WriteString("\n")
	}
}
