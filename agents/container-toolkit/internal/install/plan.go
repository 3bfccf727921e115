package install

import (
	"slices"
	"time"
)

// Grace is how long a version stays after it was replaced. A tool that started just before
// may still read its config, or start another tool.
const Grace = time.Minute

// action is the kind of a step.
type action string

// The actions, in their order in a plan.
const (
	// claim records that the folder of the installation was empty.
	claim action = "claim"
	// discard removes a leftover of a killed process.
	discard action = "discard"
	// setAside keeps the file that was at the path of the link before the first installation.
	setAside action = "set aside"
	// build makes the folder of a version.
	build action = "build"
	// mend replaces one file of the version.
	mend action = "mend"
	// release records the time of the replacement of the current version.
	release action = "release"
	// flip points the link to the version.
	flip action = "flip"
	// retire removes a version that was replaced.
	retire action = "retire"
)

// step is one change of the disk. name is the name of a version, a file or a leftover.
type step struct {
	action action
	name   string
}

// version is a version on the disk.
type version struct {
	id string
	// idle is the time since the version was replaced. It has no meaning for the current one.
	idle time.Duration
}

// state is the observed state of the disk.
type state struct {
	// current is the version that the link points to, "" if there is none.
	current string
	// foreign is true if something else is at the path of the link.
	foreign bool
	// displaced is true if a killed process exchanged a foreign file with the link, and did not
	// set it aside.
	displaced bool
	versions  []version
	leftovers []string
	// empty is true if the folder of the installation is empty or missing.
	empty bool
	// damaged has the files of the desired version that differ, if its folder exists.
	damaged []string
}

// plan returns the steps from a state to the content with this id. It returns no steps if the
// state is as desired.
func plan(id string, s state) []step {
	var steps []step
	add := func(do action, name string) { steps = append(steps, step{do, name}) }
	if s.empty {
		add(claim, "")
	}
	if s.displaced {
		add(setAside, "")
	}
	for _, name := range s.leftovers {
		add(discard, name)
	}
	there := slices.ContainsFunc(s.versions, func(v version) bool { return v.id == id })
	if !there {
		add(build, id)
	}
	for _, name := range s.damaged {
		add(mend, name)
	}
	if s.current != id {
		if s.current != "" {
			add(release, s.current)
		}
		add(flip, id)
		if s.foreign {
			add(setAside, "")
		}
	}
	for _, v := range s.versions {
		if v.id != id && v.id != s.current && v.idle >= Grace {
			add(retire, v.id)
		}
	}
	return steps
}

// due returns the time until the next old version must be removed, 0 if there is none. The
// state must be as desired.
func due(id string, s state) time.Duration {
	var in time.Duration
	for _, v := range s.versions {
		left := max(Grace-v.idle, time.Second)
		if v.id != id && (in == 0 || left < in) {
			in = left
		}
	}
	return in
}
