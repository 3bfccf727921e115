package archive

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/view"
	"outrigger.dev/pkg/text"
	"outrigger.dev/pkg/version"
)

const (
	// perFile is the space that a file needs in addition to its content: its entry in a tar file, and its line in the index.
	perFile = 1536
	// forIndex is the space for the rest of the index: maxUnseen entries with texts of maxText bytes.
	forIndex  = 1_000_000
	maxUnseen = 200
	maxText   = 2000
)

// Writer writes an archive. Call Facts, then Log, then Commit or Abort.
type Writer struct {
	sink  sink
	limit int64
	index Index
}

// Create begins an archive: a compressed file if dest ends in .tar.gz, otherwise a folder. limit is the maximum size in bytes, such
// as MaxSize. Nothing has the name dest before Commit.
func Create(dest string, taken time.Time, limit int64) (*Writer, error) {
	s, err := newSink(dest, taken)
	if err != nil {
		return nil, err
	}
	return &Writer{sink: s, limit: limit, index: Index{Format: format, Program: "kubectl-outrigger " + version.String(), Taken: taken}}, nil
}

// room returns how large the next file may be.
func (w *Writer) room() int {
	return int(w.limit - forIndex - w.sink.size() - int64(len(w.index.Files)+1)*perFile)
}

// add adds a file that is not larger than room.
func (w *Writer) add(name string, removed removals, content ...[]byte) error {
	if err := w.sink.add(name, content...); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	w.index.Files = append(w.index.Files, File{Name: name, Bytes: length(content)})
	for _, what := range slices.Sorted(maps.Keys(removed)) {
		w.index.Removed = append(w.index.Removed, Removed{File: name, What: what, Count: removed[what]})
	}
	return nil
}

// part is a list of objects of one kind.
type part struct {
	file, apiVersion, kind, plural string
	objects                        []any
	// rank orders the objects if not all have room: objects with a low rank stay. Without it, the first ones stay.
	rank func(i int) int
}

// Facts writes the facts. If a kind has too many objects, the archive has the most important ones, and lists the others as
// unseen.
func (w *Writer) Facts(f facts.Facts) error {
	w.index.Server, w.index.Taken = f.Server, f.Taken
	for _, u := range f.Unseen {
		w.Unseen(u.What, u.Why)
	}
	for _, p := range []part{
		{policiesFile, "", "", "ClusterPolicies", objects(f.Policies), nil},
		{othersFile, "", "", "objects of NVIDIA's GPU Operator", objects(f.Others), nil},
		{classesFile, "node.k8s.io/v1", "RuntimeClass", "RuntimeClasses", objects(f.RuntimeClasses), nil},
		{daemonSetsFile, "apps/v1", "DaemonSet", "DaemonSets", objects(f.DaemonSets), nil},
		{quotasFile, "v1", "ResourceQuota", "ResourceQuotas", objects(f.Quotas), nil},
		{deviceClassesFile, "resource.k8s.io/v1", "DeviceClass", "DeviceClasses", objects(f.Classes), nil},
		{claimsFile, "resource.k8s.io/v1", "ResourceClaim", "ResourceClaims", objects(f.Claims), nil},
		{nodesFile, "v1", "Node", "nodes", objects(f.Nodes), func(i int) int { return rankNode(f.Nodes[i]) }},
		{podsFile, "v1", "Pod", "pods", objects(f.Pods), func(i int) int { return rankPod(f.Pods[i]) }},
		{slicesFile, "resource.k8s.io/v1", "ResourceSlice", "ResourceSlices", objects(f.Slices), nil},
		{eventsFile, "v1", "Event", "Events", objects(f.Events), func(i int) int { return -int(f.Events[i].LastTimestamp.Unix()) }},
		{answersFile, "", "", "answers of agents", objects(pointers(f.Answers)), nil},
	} {
		if err := w.part(p); err != nil {
			return err
		}
	}
	return nil
}

func objects[T any](in []T) []any {
	var out []any
	for _, o := range in {
		out = append(out, o)
	}
	return out
}

func pointers[T any](in []T) []*T {
	var out []*T
	for i := range in {
		out = append(out, &in[i])
	}
	return out
}

// rankNode puts nodes with a cause before nodes that work, and nodes without GPUs last.
func rankNode(n *corev1.Node) int {
	compact := observe.NodeOf(n)
	switch {
	case !compact.HasGPU():
		return 2
	case view.Works(compact):
		return 1
	}
	return 0
}

// rankPod puts pods that are not ready first, then pods that hold GPUs.
func rankPod(p *corev1.Pod) int {
	switch {
	case !facts.Ready(p):
		return 0
	case facts.MayUseGPU(p):
		return 1
	}
	return 2
}

// part writes a list. It leaves room for the lists after it.
func (w *Writer) part(p part) error {
	removed := removals{}
	encoded := make([][]byte, len(p.objects))
	order := make([]int, len(p.objects))
	for i, o := range p.objects {
		var err error
		if encoded[i], err = encode(o, p.apiVersion, p.kind, removed); err != nil {
			return err
		}
		order[i] = i
	}
	if p.rank != nil {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.rank(a), p.rank(b)) })
	}
	left, kept := w.room()/5*4-len(listHead), 0
	for _, i := range order {
		if left -= len(encoded[i]); left < 0 {
			break
		}
		kept++
	}
	if out := len(order) - kept; out > 0 {
		for _, i := range order[kept:] {
			encoded[i] = nil
		}
		w.Unseen(fmt.Sprintf("%d of %d %s", out, len(order), p.plural),
			fmt.Sprintf("the archive would be larger than %d MB; a .tar.gz has room for more than a folder", w.limit/1_000_000))
	}
	head := listHead
	if kept == 0 {
		head = strings.TrimSuffix(listHead, "\n") + " []\n"
	}
	return w.add(p.file, removed, append([][]byte{[]byte(head)}, encoded...)...)
}

// Log writes the end of a log, and reports whether it had room.
func (w *Writer) Log(l Log) (bool, error) {
	removed := removals{}
	content := []byte(removed.text(printable(l.Text)))
	if len(content) > w.room() {
		return false, nil
	}
	name := l.Container + ".log"
	if l.Previous {
		name = l.Container + ".previous.log"
	}
	return true, w.add(path.Join(logsFolder, l.Namespace, l.Pod, name), removed, content)
}

// printable returns a log without characters that control a terminal.
func printable(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		parts := strings.Split(strings.TrimSuffix(line, "\r"), "\t")
		for j := range parts {
			parts[j] = text.Printable(parts[j])
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}

// Unseen adds what could not be read to the index, which has room for maxUnseen entries.
func (w *Writer) Unseen(what, why string) {
	if len(w.index.Unseen) == maxUnseen {
		what, why = "other parts of the cluster", "the list is too long"
	}
	if len(w.index.Unseen) > maxUnseen {
		return
	}
	w.index.Unseen = append(w.index.Unseen, facts.Unseen{What: text.Cut(what, maxText), Why: text.Cut(removals{}.text(why), maxText)})
}

// Releases sets the Helm releases of the index.
func (w *Writer) Releases(all []Release) { w.index.Releases = all }

// Commit writes the index, and gives the archive its name. It returns the index and the size of the archive in bytes.
func (w *Writer) Commit() (Index, int64, error) {
	content, err := yaml.Marshal(w.index)
	if err == nil {
		err = w.sink.add(indexFile, content)
	}
	if err == nil {
		err = w.sink.commit()
	}
	if err != nil {
		w.sink.abort()
		return Index{}, 0, fmt.Errorf("write the archive: %w", err)
	}
	return w.index, w.sink.size(), nil
}

// Abort removes the incomplete archive.
func (w *Writer) Abort() { w.sink.abort() }
