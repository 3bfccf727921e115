package build

import (
	"regexp"
	"strings"
	"time"

	"outrigger.dev/agents/driver-loader/internal/progress"
)

// action is a kind of command that make runs, and names in a line of its output.
type action int

// The actions of NVIDIA's makefiles. The folders src compile files without headers of the kernel. The
// folder kernel-open, which the kernel's own makefiles build, compiles files and tests with these headers.
const (
	conftest action = iota
	compile
	compileKernel
	link
	actions
)

// step returns the step of the progress to which an action belongs.
func (a action) step() string {
	return [actions]string{conftest: StepConftest, compile: StepCompile, compileKernel: StepCompile, link: StepLink}[a]
}

// cost returns the usual duration of an action, in units of a compilation without headers of the kernel.
func (a action) cost() float64 {
	return [actions]float64{conftest: 1, compile: 1, compileKernel: 3, link: 1}[a]
}

// meter measures the progress of make by the lines that it prints.
type meter struct {
	printed, toPrint *regexp.Regexp
	// last is the time of the last line that names an action, and current that action.
	last    time.Time
	current action
	count   [actions]count
	// modules is the number of modules in the dry run.
	modules int
}

// count counts an action.
type count struct {
	done, total int
	// spent is the sum of the times from a line of the action to the next line.
	spent time.Duration
}

func newMeter() *meter {
	return &meter{
		// These are the formats of NVIDIA's src, of its kernel-open, and of the kernel's makefiles:
		//	 [ nvidia            ]  CC           file.c
		//	 CONFTEST: name
		//	  CC [M]  nvidia/nv.o
		printed: regexp.MustCompile(`^ (\[ [^\]]+ \])? *(CONFTEST:|[A-Z_]+)(?: \[M\])? +\S`),
		// A dry run prints the command that prints such a line.
		toPrint: regexp.MustCompile(`\b(?:echo|printf) +["'](.*)`),
	}
}

// actionOf returns the action that a line of make's output names.
func (m *meter) actionOf(line string) (action, bool) {
	found := m.printed.FindStringSubmatch(line)
	if found == nil {
		return 0, false
	}
	switch found[2] {
	case "CONFTEST:":
		return conftest, true
	case "CC", "CXX", "AS":
		if found[1] != "" {
			return compile, true
		}
		return compileKernel, true
	case "LD", "AR", "OBJCOPY", "XZ", "MODPOST", "BTF":
		return link, true
	}
	return 0, false
}

// plan adds a line of a dry run.
func (m *meter) plan(line string) {
	found := m.toPrint.FindStringSubmatch(line)
	if found == nil {
		return
	}
	if a, ok := m.actionOf(found[1]); ok {
		m.count[a].total++
		if a == link && strings.Contains(found[1], "[M]") {
			m.modules++
		}
	}
}

// planned ends the dry run. The kernel's makefiles cannot plan the second stage, because it reads the list
// of modules that the first stage writes. For each module that was linked, it compiles and links a file, and
// if btf is set, adds type information.
func (m *meter) planned(btf bool) {
	if m.modules == 0 {
		return
	}
	m.count[compileKernel].total += m.modules
	m.count[link].total += m.modules + 1 // and MODPOST
	if btf {
		m.count[link].total += m.modules
	}
}

// add adds a line of make's output. It reports whether the line names an action.
func (m *meter) add(line string, now time.Time) (progress.Progress, bool) {
	a, ok := m.actionOf(line)
	if !ok {
		return progress.Progress{}, false
	}
	// Before the first test with a line, NVIDIA's makefiles run hundreds of tests without one.
	if begins := a == conftest && m.count[a].done == 0; !m.last.IsZero() && !begins {
		m.count[m.current].spent += now.Sub(m.last)
	}
	m.current, m.last = a, now
	c := &m.count[a]
	c.done++
	c.total = max(c.total, c.done)
	return m.progress(a.step()), true
}

// progress returns the progress of a step.
func (m *meter) progress(step string) progress.Progress {
	p := progress.Progress{Step: step, Left: m.left()}
	for a, c := range m.count {
		if action(a).step() == step {
			p.Done += c.done
			p.Total += c.total
		}
	}
	return p
}

// finish reports each step as complete, after make has succeeded. The makefiles can find at the end
// that a planned action is unnecessary.
func (m *meter) finish(report func(progress.Progress)) {
	for a := range m.count {
		m.count[a].total = m.count[a].done
	}
	for _, step := range []string{StepConftest, StepCompile, StepLink} {
		if p := m.progress(step); p.Total > 0 {
			report(p)
		}
	}
}

// left returns the estimated time until make ends, or 0 before the first action has ended. Each action
// that is left counts with the mean duration of its kind, and as long as few of its kind have ended, also
// with the mean duration of all kinds.
func (m *meter) left() time.Duration {
	const few = 10
	var spent time.Duration
	var cost float64
	for a, c := range m.count {
		spent += c.spent
		cost += float64(c.done) * action(a).cost()
	}
	if spent == 0 {
		return 0
	}
	var left float64
	for a, c := range m.count {
		usual := action(a).cost() * float64(spent) / cost
		left += float64(c.total-c.done) * (float64(c.spent) + few*usual) / float64(c.done+few)
	}
	return time.Duration(left)
}
