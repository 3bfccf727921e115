package archive

import (
	"fmt"
	"path"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/text"
)

// Read reads the facts of an archive: a folder or a .tar.gz that must-gather has written, or NVIDIA's must-gather.
func Read(name string) (facts.Facts, error) {
	l, err := load(name)
	if err != nil {
		return facts.Facts{}, err
	}
	var f facts.Facts
	if dir, ok := l.root(indexFile); ok {
		f, err = l.own(dir)
	} else if dir, ok := l.root(foreignFiles()...); ok {
		f = l.foreign(dir)
	} else {
		err = fmt.Errorf("it has no %s, and no file of NVIDIA's must-gather: give the folder or the .tar.gz that must-gather has written", indexFile)
	}
	if err != nil {
		return facts.Facts{}, fmt.Errorf("read %s: %w", name, err)
	}
	f.Unseen = append(f.Unseen, l.unseen...)
	return f, nil
}

// ownFiles returns the names of the lists in an archive of this package.
func ownFiles() []string {
	return []string{policiesFile, othersFile, classesFile, quotasFile, deviceClassesFile, claimsFile, slicesFile, daemonSetsFile, nodesFile, podsFile, eventsFile, answersFile}
}

// own reads an archive of this package in a folder of the loaded files.
func (l *loaded) own(dir string) (facts.Facts, error) {
	var index Index
	if err := yaml.Unmarshal(l.files[path.Join(dir, indexFile)], &index); err != nil {
		return facts.Facts{}, fmt.Errorf("%s: %w", indexFile, err)
	}
	if index.Format > format {
		return facts.Facts{}, fmt.Errorf("%s has written it in a newer format: use this version to read it", index.Program)
	}
	f := facts.Facts{Taken: index.Taken, Server: index.Server, Unseen: index.Unseen}
	r := reader{loaded: l, dir: dir, unseen: &f.Unseen}
	into(r, policiesFile, "", &f.Policies)
	into(r, othersFile, "", &f.Others)
	into(r, classesFile, "RuntimeClass", &f.RuntimeClasses)
	into(r, daemonSetsFile, "DaemonSet", &f.DaemonSets)
	into(r, quotasFile, "ResourceQuota", &f.Quotas)
	into(r, deviceClassesFile, "DeviceClass", &f.Classes)
	into(r, claimsFile, "ResourceClaim", &f.Claims)
	into(r, nodesFile, "Node", &f.Nodes)
	into(r, podsFile, "Pod", &f.Pods)
	into(r, slicesFile, "ResourceSlice", &f.Slices)
	into(r, eventsFile, "Event", &f.Events)
	var answers []*facts.Answer
	into(r, answersFile, "", &answers)
	for _, a := range answers {
		f.Answers = append(f.Answers, *a)
	}
	return f, nil
}

// reader reads the lists of one folder. It adds a list that it cannot read to unseen.
type reader struct {
	*loaded

	dir    string
	unseen *[]facts.Unseen
}

func (r reader) miss(file, why string) {
	*r.unseen = append(*r.unseen, facts.Unseen{What: "the file " + file, Why: why})
}

// into appends the objects of a kind in a file to a list. An empty kind means all.
func into[T any](r reader, file, kind string, to *[]*T) {
	content, ok := r.files[path.Join(r.dir, file)]
	if !ok {
		r.miss(file, "the archive does not have it")
		return
	}
	all, err := decode[T](content, kind)
	if err != nil {
		r.miss(file, "it is damaged: "+text.OneLine(err))
	}
	for _, o := range all {
		if typed, is := any(o).(runtime.Object); is && kind != "" {
			typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as a typed client returns it
		}
		*to = append(*to, o)
	}
}
