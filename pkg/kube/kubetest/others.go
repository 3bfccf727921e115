package kubetest

import (
	"encoding/json"
	"net/http"
)

// Event is the part of an Event that tests read.
type Event struct {
	Type           string `json:"type"`
	Reason         string `json:"reason"`
	Message        string `json:"message"`
	InvolvedObject struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"involvedObject"`
	Metadata struct {
		Namespace    string `json:"namespace"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
	ReportingComponent string `json:"reportingComponent"`
}

func (s *Server) createEvent(r *http.Request) (any, *failure) {
	var ev Event
	if err := json.NewDecoder(r.Body).Decode(&ev); err != nil || ev.Metadata.Namespace != r.PathValue("namespace") {
		return nil, badRequest("the body is not an Event of this namespace")
	}
	s.Events <- ev
	return ev, nil
}

// NodeFeature is the part of a NodeFeature that tests read.
type NodeFeature struct {
	Metadata struct {
		Labels          map[string]string `json:"labels"`
		OwnerReferences []struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			UID        string `json:"uid"`
			Controller bool   `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Labels   map[string]string         `json:"labels"`
		Features map[string]map[string]any `json:"features"`
	} `json:"spec"`
}

// InstallNFD makes the server serve NodeFeatures.
func (s *Server) InstallNFD() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.features = map[string]*object{}
}

// NodeFeature returns a NodeFeature, and whether it exists.
func (s *Server) NodeFeature(namespace, name string) (f NodeFeature, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, found := s.features[namespace+"/"+name]
	if found {
		convert(o.doc, &f)
	}
	return f, found
}

// unserved returns the answer for a path that no API serves.
func unserved() *failure {
	return &failure{code: http.StatusNotFound, message: "the server could not find the requested resource"}
}

func (s *Server) getFeature(r *http.Request) (any, *failure) {
	if s.features == nil {
		return nil, unserved()
	}
	o, found := s.features[r.PathValue("namespace")+"/"+r.PathValue("name")]
	if !found {
		return nil, notFound("nodefeatures.nfd.k8s-sigs.io", r.PathValue("name"))
	}
	return shown(o, s.version, r), nil
}

func (s *Server) patchFeature(r *http.Request) (any, *failure) {
	if s.features == nil {
		return nil, unserved()
	}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	o, found := s.features[namespace+"/"+name]
	if !found {
		o = newObject(featureType)
		o.doc = map[string]any{
			"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature",
			"metadata": map[string]any{"name": name, "namespace": namespace, "uid": "uid-of-" + name},
		}
	}
	if failed := o.patch(r); failed != nil {
		return nil, failed
	}
	if _, has := o.doc["spec"]; !has {
		return nil, &failure{code: http.StatusUnprocessableEntity, message: "spec: Required value", name: name, kind: "NodeFeature"}
	}
	s.features[namespace+"/"+name] = o
	s.version++
	return shown(o, s.version, r), nil
}

// AddPod adds a pod that a DaemonSet controls, and that has another owner too.
func (s *Server) AddPod(namespace, name, daemonSet string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[namespace+"/"+name] = map[string]any{
		"name": name, "namespace": namespace, "uid": "uid-of-" + name,
		"ownerReferences": []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "notes", "uid": "uid-of-notes"},
			map[string]any{
				"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemonSet, "uid": "uid-of-" + daemonSet,
				"controller": true, "blockOwnerDeletion": true,
			},
		},
	}
}

func (s *Server) getPod(r *http.Request) (any, *failure) {
	metadata, found := s.pods[r.PathValue("namespace")+"/"+r.PathValue("name")]
	if !found {
		return nil, notFound("pods", r.PathValue("name"))
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}, nil
}

// SetDaemonSet makes a DaemonSet have these fields, in place of those it has; nil deletes it.
func (s *Server) SetDaemonSet(namespace, name string, fields map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.daemonSets, namespace+"/"+name)
	if fields != nil {
		s.daemonSets[namespace+"/"+name] = clone(fields)
	}
}

func (s *Server) getDaemonSet(r *http.Request) (any, *failure) {
	set, found := s.daemonSets[r.PathValue("namespace")+"/"+r.PathValue("name")]
	if !found {
		return nil, notFound("daemonsets", r.PathValue("name"))
	}
	return set, nil
}
