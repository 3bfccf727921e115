package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/health"
	"outrigger.dev/orchestrator/internal/report"
	"outrigger.dev/orchestrator/internal/table"
	"outrigger.dev/pkg/cause"
)

// Write prints the status for people.
func (s Status) Write(o table.Out) error {
	var b strings.Builder
	if s.Warning != "" {
		fmt.Fprintf(&b, "%s\n", o.Paint(table.Warn, clean(s.Warning)))
		if s.Status != nil {
			b.WriteByte('\n')
		}
	}
	if s.Policy != "" && s.Status != nil {
		fmt.Fprintf(&b, "ClusterPolicy %s: %s\n\n", clean(s.Policy), cmp.Or(clean(s.Status.State), "not read by an orchestrator yet"))
	}
	if err := write(o, b.String()); err != nil {
		return err
	}
	if s.Status != nil {
		if err := report.Write(o, *s.Status); err != nil {
			return err
		}
	}
	nodes := section
	if b.Len() == 0 && s.Status == nil {
		nodes = func(o table.Out, t *table.Table) error { return t.Write(o) } // no empty line comes first
	}
	if err := nodes(o, causes(s.Nodes)); err != nil {
		return err
	}
	if err := section(o, versions(s.Versions)); err != nil {
		return err
	}
	return WriteUnseen(o, s.Unseen)
}

func write(o table.Out, text string) error {
	if _, err := fmt.Fprint(o, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// section prints a table below an empty line, if the table has rows.
func section(o table.Out, t *table.Table) error {
	if t.Len() == 0 {
		return nil
	}
	if err := write(o, "\n"); err != nil {
		return err
	}
	return t.Write(o)
}

// WriteUnseen lists what could not be read, below an empty line. The reasons are not cut, because they name the missing right.
func WriteUnseen(o table.Out, all []facts.Unseen) error {
	if len(all) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", o.Paint(table.Title, "Not seen:"))
	for _, u := range all {
		fmt.Fprintf(&b, "  %s\n", clean(u.What+": "+u.Why))
	}
	return write(o, b.String())
}

// clean returns a text that anybody may have written as one printable line.
func clean(text string) string { return health.SingleLine(text, health.MaxMessage) }

func causes(rows []NodesOf) *table.Table {
	t := &table.Table{Columns: []table.Column{{Name: "NODES"}, {Name: "CAUSE"}, {Name: "EXAMPLES", Min: 12, Drop: 1}, {Name: "MESSAGE", Min: 16}}}
	for _, r := range rows {
		t.Add(r.Nodes, table.Cell{Text: r.Cause, Tone: tone(r.Cause, r.Severity)}, health.Abbreviate(r.Examples, r.Nodes), r.Message)
	}
	return t
}

func tone(state string, severity cause.Severity) table.Tone {
	switch {
	case severity == cause.Fails:
		return table.Bad
	case severity != "":
		return table.Warn
	case state == Ready:
		return table.Good
	}
	return table.Plain
}

func versions(rows []Version) *table.Table {
	t := &table.Table{Columns: []table.Column{
		{Name: "PART", Min: 16}, {Name: "VERSION", Min: 16}, {Name: "NODES"}, {Name: "UPDATED", Drop: 2}, {Name: "READY", Drop: 1}, {Name: "IMAGE", Min: 16, Drop: 3},
	}}
	for _, r := range rows {
		t.Add(r.Part, r.Version, r.Nodes, optional(r.Updated), optional(r.Ready), r.Image)
	}
	return t
}

// optional returns a number as text, or "" if it is not known.
func optional(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// Write prints the nodes for people: the sums, then a row for each node.
func (t Top) Write(o table.Out) error {
	if len(t.Nodes) == 0 {
		return cmp.Or(write(o, "No node has a label of a GPU.\n"), WriteUnseen(o, t.Unseen))
	}
	if err := write(o, t.sums()+"\n\n"); err != nil {
		return err
	}
	rows := &table.Table{Columns: []table.Column{
		{Name: "NODE", Min: 16},
		{Name: "MODEL", Min: 8, Drop: 2},
		{Name: "GPUS", Drop: 4},
		{Name: "MIG", Min: 8, Drop: 3},
		{Name: "DEVICES"},
		{Name: "STATE"},
		{Name: "ALLOCATED"},
		{Name: "PODS"},
		{Name: "UTIL"},
		{Name: "MEMORY", Drop: 1},
	}}
	for _, n := range t.Nodes {
		state := table.Cell{Text: n.State, Tone: tone(n.State, n.Severity)}
		if n.Cordoned {
			state.Text += ",cordoned"
		}
		use, memory := n.use()
		rows.Add(n.Node, n.Model, n.GPUs, n.MIG, fmt.Sprintf("%d/%d", n.Offered, n.Capacity), state, n.Requested, len(n.Pods), use, cmp.Or(memory, "-"))
	}
	if err := rows.Write(o); err != nil {
		return err
	}
	return cmp.Or(t.why(o), WriteUnseen(o, t.Unseen))
}

// why prints why the use of GPUs is not known.
func (t Top) why(o table.Out) error {
	if t.NoUse == "" {
		return nil
	}
	return write(o, "\nThe use of some GPUs is not known: "+clean(t.NoUse)+"\n")
}

// sums returns the sums of all nodes in one line.
func (t Top) sums() string {
	var ready, pods int
	var offered, capacity, requested int64
	for _, n := range t.Nodes {
		if n.State == Ready {
			ready++
		}
		offered, capacity, requested, pods = offered+n.Offered, capacity+n.Capacity, requested+n.Requested, pods+len(n.Pods)
	}
	return fmt.Sprintf("%d of %s ready, %d of %d devices offered, %d allocated to %d pods", ready, health.Count(len(t.Nodes)), offered, capacity, requested, pods)
}

// use returns the mean utilization of the devices of a node, and the sum of their memory, as text. It returns "" for what
// is not known.
func (n GPUNode) use() (utilization, memory string) {
	var sum, used, total float64
	var known int
	for _, d := range n.Devices {
		if d.Utilization != nil {
			sum += *d.Utilization
			known++
		}
		if d.MemoryUsed != nil && d.MemoryTotal != nil {
			used, total = used+*d.MemoryUsed, total+*d.MemoryTotal
		}
	}
	if known > 0 {
		utilization = fmt.Sprintf("%.0f%%", sum/float64(known))
	}
	if total > 0 {
		memory = gib(used, total)
	}
	return utilization, memory
}

// gib returns an amount of memory as text.
func gib(used, total float64) string { return fmt.Sprintf("%.1f/%.1f GiB", used/1024, total/1024) }

// WriteNode prints the devices and pods of the first node for people.
func (t Top) WriteNode(o table.Out) error {
	n := t.Nodes[0]
	line := fmt.Sprintf("%s: %s, %d of %d devices offered\n", clean(n.Node), o.Paint(tone(n.State, n.Severity), clean(n.State)), n.Offered, n.Capacity)
	if n.Message != "" {
		line += clean(n.Message) + "\n"
	}
	if err := write(o, line); err != nil {
		return err
	}
	devices := &table.Table{Columns: []table.Column{
		{Name: "GPU"},
		{Name: "MODEL", Min: 8, Drop: 1},
		{Name: "MIG"},
		{Name: "INSTANCE"},
		{Name: "UTIL"},
		{Name: "MEMORY"},
		{Name: "TEMP", Drop: 2},
		{Name: "POWER", Drop: 3},
		{Name: "UUID", Min: 12, Drop: 4},
		{Name: "PODS", Min: 16},
	}}
	for _, d := range n.Devices {
		memory := ""
		switch {
		case d.MemoryUsed != nil && d.MemoryTotal != nil:
			memory = gib(*d.MemoryUsed, *d.MemoryTotal)
		case d.MemoryTotal != nil:
			memory = fmt.Sprintf("%.1f GiB", *d.MemoryTotal/1024)
		}
		pods := table.Cell{Text: strings.Join(d.Pods, ", ")}
		if d.Fault != "" {
			pods = table.Cell{Text: d.Fault, Tone: table.Bad}
		}
		devices.Add(d.GPU, d.Model, d.MIG, d.Instance, unit(d.Utilization, "%"), memory, unit(d.Temperature, "°C"), unit(d.Power, "W"), d.UUID, pods)
	}
	pods := &table.Table{Columns: []table.Column{{Name: "NAMESPACE", Min: 8}, {Name: "POD", Min: 16}, {Name: "PHASE"}, {Name: "REQUESTS", Min: 12}}}
	for _, p := range n.Pods {
		var requests []string
		for _, name := range slices.Sorted(maps.Keys(p.Requests)) {
			requests = append(requests, fmt.Sprintf("%s=%d", name, p.Requests[name]))
		}
		pods.Add(p.Namespace, p.Name, p.Phase, strings.Join(requests, ","))
	}
	return cmp.Or(section(o, devices), section(o, pods), t.why(o), WriteUnseen(o, t.Unseen))
}

// unit returns a rounded value with its unit, or "" if it is not known.
func unit(v *float64, of string) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%.0f%s", *v, of)
}
