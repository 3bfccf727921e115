// Package archive writes facts, logs and answers of agents to a bounded archive without secrets, and reads the facts back,
// also from NVIDIA's must-gather.
package archive

import (
	"strings"
	"time"

	"outrigger.dev/orchestrator/internal/facts"
)

// MaxSize is the maximum size of an archive, in bytes.
const MaxSize = 50_000_000

// The files of an archive. Lists are Kubernetes lists in YAML.
const (
	indexFile         = "index.yaml"
	policiesFile      = "policies.yaml"
	othersFile        = "nvidia.yaml"
	classesFile       = "runtimeclasses.yaml"
	quotasFile        = "resourcequotas.yaml"
	claimsFile        = "resourceclaims.yaml"
	slicesFile        = "resourceslices.yaml"
	deviceClassesFile = "deviceclasses.yaml"
	daemonSetsFile    = "daemonsets.yaml"
	nodesFile         = "nodes.yaml"
	podsFile          = "pods.yaml"
	eventsFile        = "events.yaml"
	answersFile       = "answers.yaml"
	logsFolder        = "logs"
)

// format is the version of the form of an archive. It changes if an older program cannot read the archive.
const format = 1

// Index describes an archive. It is the file index.yaml.
type Index struct {
	Format int `json:"format"`
	// Program is the name and version of the program that wrote the archive.
	Program string    `json:"program"`
	Taken   time.Time `json:"taken"`
	Server  string    `json:"server"`
	// Releases are the Helm releases with agents.
	Releases []Release `json:"releases,omitempty"`
	// Removed lists the kinds of secrets that were removed, with their numbers.
	Removed []Removed      `json:"removed,omitempty"`
	Unseen  []facts.Unseen `json:"unseen,omitempty"`
	// Files lists the other files with their sizes.
	Files []File `json:"files"`
}

// Release is a Helm release.
type Release struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Chart     string `json:"chart,omitempty"`
}

// Removed is a kind of secrets that was removed from a file.
type Removed struct {
	File  string `json:"file"`
	What  string `json:"what"`
	Count int    `json:"count"`
}

// File is a file of the archive and its size in bytes.
type File struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// Log is the end of the log of a container.
type Log struct {
	Namespace, Pod, Container string
	// Previous says that it is the log of the container before its last restart.
	Previous bool
	Text     string
}

// IsLog reports whether a file of an archive is a log.
func IsLog(name string) bool { return strings.HasPrefix(name, logsFolder+"/") }
