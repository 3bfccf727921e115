package doctor

import (
	"fmt"
	"io"
	"strings"

	"outrigger.dev/orchestrator/internal/health"
)

// Write prints a report for people: the verdict, the chain, and each finding with its evidence and fix. Texts are from objects,
// answers and archives that anybody may have written, so each is one printable line of limited length.
func Write(w io.Writer, r Report) error {
	var b strings.Builder
	fmt.Fprintln(&b, clean(r.Verdict))
	if len(r.Chain) > 0 {
		fmt.Fprintln(&b, "\n"+chainLine(r.Chain))
	}
	for i, f := range r.Findings {
		writeFinding(&b, i+1, f)
	}
	writeHolders(&b, r)
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\nnote: %s\n", clean(note))
	}
	if len(r.Unseen) > 0 {
		fmt.Fprintln(&b, "\nnot seen:")
	}
	for _, u := range r.Unseen {
		fmt.Fprintf(&b, "  %s\n", clean(u.What+": "+u.Why))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print the diagnosis: %w", err)
	}
	return nil
}

// writeHolders writes a line for each holder.
func writeHolders(b *strings.Builder, r Report) {
	if len(r.Holders) > 0 {
		fmt.Fprintln(b, "\nheld by, the most useful first:")
	}
	for i, h := range r.Holders {
		if i == health.MaxExamples {
			fmt.Fprintf(b, "  and %d more (-o json lists all)\n", len(r.Holders)-i)
			break
		}
		fmt.Fprintf(b, "  %s\n", clean(h.line(r.Taken)))
	}
}

func clean(text string) string { return health.SingleLine(text, health.MaxMessage) }

// chainLine returns the chain with a mark for each link.
func chainLine(links []Link) string {
	marks := map[string]string{OK: "", Broken: " ✗", Follows: " …", Unknown: " ?"}
	parts := make([]string, len(links))
	for i, l := range links {
		parts[i] = l.Name + marks[l.State]
	}
	return strings.Join(parts, " → ")
}

func writeFinding(b *strings.Builder, number int, f Finding) {
	fmt.Fprintf(b, "\n%d. %s (%s, %s) %s\n", number, clean(string(f.Code)), f.Link, f.Severity, clean(where(f)))
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "   %-9s %s\n", name+":", clean(text))
		}
	}
	line("evidence", f.Evidence)
	line("source", f.Source)
	line("fix", f.Fix)
	if f.Since != nil {
		line("since", f.Since.UTC().Format("2006-01-02 15:04:05Z"))
	}
	line("follows", f.Follows)
	line("docs", f.Docs)
}

// where returns the subject of a finding, or the nodes.
func where(f Finding) string {
	if f.count > 1 {
		return "on " + health.Abbreviate(f.Examples, f.count)
	}
	return "on " + f.Subject
}
