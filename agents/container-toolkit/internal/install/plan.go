package install

import (
	"slices"
	"time"
)

// Grace is how long a version stays after it was replaced: a tool that was started just
// before may still read its config, or start another tool.
const Grace = time.Minute

// action is what a step does.
type action string

// The actions, in the order in which a plan has them.
const (
	// claim notes that the folder of the installation had nothing in it.
	claim action = "claim"
	// discard removes what a killed process left behind.
	discard action = "discard"
	// setAside sets aside what was at the path of the link before the first installation.
	setAside action = "set aside"
	// build makes the folder of a version.
	build action = "build"
	// mend replaces one file of the version.
	mend action = "mend"
	// release notes that the present version is about to be replaced.
	release action = "release"
	// flip makes the link lead to the version.
	flip action = "flip"
	// retire removes a version that was replaced.
	retire action = "retire"
)

// step is one change of the disk. of is the name of a version, a file or a leftover.
type step struct {
	action action
	name   string
}

// version is a version on the disk.
type version struct {
	id string
	// idle is for how long it has not been in use, if it is not.
	idle time.Duration
}

// state is what is on the disk.
type state struct {
	// current is the version to which the link leads, "" if there is none.
	current string
	// foreign is set if something else is at the path of the link.
	foreign bool
	// displaced is set if a killed process has exchanged that with the link, and has not
	// set it aside.
	displaced bool
	versions  []version
	leftovers []string
	// empty is set if nothing is in the folder of the installation.
	empty bool
	// damaged are the files of the desired version that differ, if its folder is there.
	damaged []string
}

// plan returns the steps from a state to the content with this id. It returns none if
// everything is as desired.
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

// due returns when the next version is to be removed, 0 for none, if the state is as
// desired.
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
