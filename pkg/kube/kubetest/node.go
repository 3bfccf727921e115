package kubetest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// Node is the part of the Node that tests read and change.
type Node struct {
	Labels     map[string]string
	Conditions []Condition
	Taints     []Taint
	// Images are the names of the images on the node, which make a Node large.
	Images []string
}

// Condition is one of a Node's conditions, as the API writes it.
type Condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
	LastHeartbeatTime  string `json:"lastHeartbeatTime,omitempty"`
}

// Taint is one of a Node's taints, as the API writes it.
type Taint struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Effect    string `json:"effect"`
	TimeAdded string `json:"timeAdded,omitempty"`
}

// wire is a Node as JSON.
type wire struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		UID    string            `json:"uid"`
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Taints []Taint `json:"taints,omitempty"`
	} `json:"spec,omitzero"`
	Status struct {
		Conditions []Condition `json:"conditions,omitempty"`
		Images     []image     `json:"images,omitempty"`
	} `json:"status,omitzero"`
}

type image struct {
	Names []string `json:"names"`
}

// Node returns the current Node.
func (s *Server) Node() Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read()
}

func (s *Server) read() Node {
	var w wire
	convert(s.node.doc, &w)
	n := Node{Labels: w.Metadata.Labels, Conditions: w.Status.Conditions, Taints: w.Spec.Taints}
	for _, i := range w.Status.Images {
		n.Images = append(n.Images, i.Names...)
	}
	return n
}

// Update changes the Node as another field manager, which then owns the changed
// fields. Watches get an event, here and in the functions below.
func (s *Server) Update(manager string, change func(*Node)) {
	s.change(func() {
		n := s.read()
		change(&n)
		w := wire{APIVersion: "v1", Kind: "Node"}
		convert(s.node.doc["metadata"], &w.Metadata)
		w.Metadata.Labels, w.Spec.Taints, w.Status.Conditions = n.Labels, n.Taints, n.Conditions
		for _, name := range n.Images {
			w.Status.Images = append(w.Status.Images, image{Names: []string{name}})
		}
		var doc map[string]any
		convert(w, &doc)
		if err := s.node.write(writer{manager: manager, operation: "Update"}, doc, true); err != nil {
			panic(err) // the test asks for an invalid Node
		}
	})
}

// SetLabels replaces the labels of the Node, as the manager kubectl.
func (s *Server) SetLabels(labels map[string]string) {
	s.Update("kubectl", func(n *Node) { n.Labels = maps.Clone(labels) })
}

// Touch gives the Node a new resource version and changes nothing else.
func (s *Server) Touch() { s.change(func() {}) }

// Delete deletes the Node.
func (s *Server) Delete() {
	s.notify(func() map[string]any {
		deleted := s.node.full(s.version)
		s.node = nil
		return map[string]any{"type": "DELETED", "object": deleted}
	})
}

// Bookmark sends watches an event that has only a resource version.
func (s *Server) Bookmark() {
	s.notify(func() map[string]any {
		return map[string]any{"type": "BOOKMARK", "object": map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)},
		}}
	})
}

// Expire sends watches the failure that their resource version is too old.
func (s *Server) Expire() {
	s.notify(func() map[string]any {
		gone := failure{code: http.StatusGone, message: "too old resource version"}
		return map[string]any{"type": "ERROR", "object": gone.status()}
	})
}

// EndWatches ends the open watches in good order.
func (s *Server) EndWatches() { s.change(func() { s.ends++ }) }

// notice is an event of watches that is no change of the Node.
type notice struct {
	version int
	event   map[string]any
}

func (s *Server) notify(event func() map[string]any) {
	s.change(func() { s.notices = append(s.notices, notice{version: s.version + 1, event: event()}) })
}

func (s *Server) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.bump()
}

// bump raises the resource version and wakes watches.
func (s *Server) bump() {
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// shown returns an object in the media type that the request accepts.
func shown(o *object, version int, r *http.Request) map[string]any {
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return o.metadata(version)
	}
	return o.full(version)
}

func (s *Server) listNodes(r *http.Request) (any, *failure) {
	items := []any{}
	matches, failed := s.matches(r.URL.Query().Get("labelSelector"))
	if failed != nil {
		return nil, failed
	}
	if matches && selected(s.nodeName, r) {
		items = append(items, shown(s.node, s.version, r))
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "NodeList",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
	}, nil
}

func selected(name string, r *http.Request) bool {
	return r.URL.Query().Get("fieldSelector") == "metadata.name="+name
}

// matches reports whether the Node exists and has the labels of a selector, which can only be one of
// equality: "a=b,c=d".
func (s *Server) matches(selector string) (bool, *failure) {
	if s.node == nil {
		return false, nil
	}
	labels := s.read().Labels
	for part := range strings.SplitSeq(selector, ",") {
		key, value, ok := strings.Cut(part, "=")
		switch {
		case selector == "":
		case !ok || strings.ContainsAny(part, "!<>() "):
			return false, badRequest("kubetest: the label selector %q is not one of equality", selector)
		case labels[key] != value:
			return false, nil
		}
	}
	return true, nil
}

func (s *Server) getNode(r *http.Request) (any, *failure) {
	if s.node == nil || r.PathValue("name") != s.nodeName {
		return nil, notFound("nodes", r.PathValue("name"))
	}
	return shown(s.node, s.version, r), nil
}

func (s *Server) patchNode(r *http.Request) (any, *failure) {
	switch missing := s.node == nil || r.PathValue("name") != s.nodeName; {
	case missing && strings.HasSuffix(r.URL.Path, "/status"):
		return nil, notFound("nodes", r.PathValue("name"))
	case missing && r.Header.Get("Content-Type") == "application/apply-patch+yaml":
		// To apply would create the Node, which no role of an agent allows.
		return nil, &failure{code: http.StatusForbidden, message: forbidden("create", "nodes")}
	case missing:
		return nil, notFound("nodes", r.PathValue("name"))
	}
	before, err := json.Marshal(s.node.full(0))
	if err != nil {
		panic(err)
	}
	if failed := s.node.patch(r); failed != nil {
		return nil, failed
	}
	if after, err := json.Marshal(s.node.full(0)); err != nil || string(after) != string(before) {
		s.bump() // a request that changes nothing writes nothing
	}
	return shown(s.node, s.version, r), nil
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	seen, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	s.mu.Lock()
	ends := s.ends
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	for {
		s.mu.Lock()
		events, ended, changed := s.since(seen, r), s.ends != ends, s.changed
		seen = s.version
		s.mu.Unlock()
		for _, event := range events {
			if err := json.NewEncoder(w).Encode(event); err != nil {
				return
			}
		}
		_ = http.NewResponseController(w).Flush()
		if ended {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// since returns the events after a version. It merges changes of the Node into one.
func (s *Server) since(seen int, r *http.Request) (events []any) {
	if s.version > seen && s.node != nil && selected(s.nodeName, r) {
		events = append(events, map[string]any{"type": "MODIFIED", "object": shown(s.node, s.version, r)})
	}
	for _, t := range s.notices {
		if t.version > seen {
			events = append(events, t.event)
		}
	}
	return events
}
