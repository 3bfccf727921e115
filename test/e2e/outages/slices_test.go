//go:build e2e

package outages_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"outrigger.dev/pkg/pace"
)

// sliceServer is an API server with ResourceSlices, for one agent.
type sliceServer struct {
	http *httptest.Server

	mu     sync.Mutex
	slices map[string]resourceapi.ResourceSlice
	// events are what has happened to slices, in JSON. The resource version of a slice is the
	// number of its event, from 1.
	events [][]byte
	// changed is closed with each event.
	changed chan struct{}
}

func newSliceServer() *sliceServer {
	s := &sliceServer{slices: map[string]resourceapi.ResourceSlice{}, changed: make(chan struct{})}
	const path = "/apis/resource.k8s.io/v1/resourceslices"
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(*http.Request) (any, error){
		"GET /api/v1/nodes/{name}":   func(r *http.Request) (any, error) { return node1(r.PathValue("name")), nil },
		"POST " + path:               func(r *http.Request) (any, error) { return s.put(watch.Added, r.Body) },
		"PUT " + path + "/{name}":    func(r *http.Request) (any, error) { return s.put(watch.Modified, r.Body) },
		"DELETE " + path + "/{name}": func(r *http.Request) (any, error) { return s.remove(r.PathValue("name")) },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { reply(w, r, answer) })
	}
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			s.watch(w, r)
			return
		}
		reply(w, r, func(*http.Request) (any, error) { return s.list(), nil })
	})
	s.http = httptest.NewServer(mux)
	return s
}

// close ends the server, after its client.
func (s *sliceServer) close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// kubeconfig writes the file with which the agent connects to the server.
func (s *sliceServer) kubeconfig(path string) error {
	return os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q}}]
contexts: [{name: test, context: {cluster: test}}]
current-context: test
`, s.http.URL), 0o600)
}

func reply(w http.ResponseWriter, r *http.Request, answer func(*http.Request) (any, error)) {
	object, err := answer(r)
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		object = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Message: err.Error()}
	}
	_ = json.NewEncoder(w).Encode(object) // a client that is gone
}

func node1(name string) corev1.Node {
	return corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)},
	}
}

// put stores the slice of a request. Clients of client-go send protobuf.
func (s *sliceServer) put(happened watch.EventType, body io.Reader) (any, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	data, ok := bytes.CutPrefix(data, []byte("k8s\x00"))
	if !ok {
		return nil, fmt.Errorf("a body that is not protobuf: %.100q", data)
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(data); err != nil {
		return nil, err
	}
	var slice resourceapi.ResourceSlice
	if err := slice.Unmarshal(envelope.Raw); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.happened(happened, slice)
}

func (s *sliceServer) remove(name string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slice, ok := s.slices[name]
	if !ok {
		return nil, fmt.Errorf("there is no slice %s", name)
	}
	return s.happened(watch.Deleted, slice)
}

// happened records an event of a slice. The caller holds s.mu.
func (s *sliceServer) happened(event watch.EventType, slice resourceapi.ResourceSlice) (any, error) {
	version := strconv.Itoa(len(s.events) + 1)
	slice.TypeMeta = metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSlice"}
	if slice.Name == "" {
		slice.Name, slice.UID = slice.GenerateName+version, types.UID("uid-"+version)
	}
	slice.ResourceVersion = version
	if s.slices[slice.Name] = slice; event == watch.Deleted {
		delete(s.slices, slice.Name)
	}
	text, err := json.Marshal(map[string]any{"type": event, "object": slice})
	s.events = append(s.events, text)
	close(s.changed)
	s.changed = make(chan struct{})
	return slice, err
}

func (s *sliceServer) list() resourceapi.ResourceSliceList {
	s.mu.Lock()
	defer s.mu.Unlock()
	return resourceapi.ResourceSliceList{
		TypeMeta: metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSliceList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(len(s.events))},
		Items:    slices.Collect(maps.Values(s.slices)),
	}
}

// watch sends the events after those that the client has seen, until it leaves. The client lists
// first: one that asks for all slices as events gets an error.
func (s *sliceServer) watch(w http.ResponseWriter, r *http.Request) {
	seen, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil || r.URL.Query().Get("sendInitialEvents") != "" {
		reply(w, r, func(*http.Request) (any, error) { return nil, fmt.Errorf("no watch of this kind: %s", r.URL) })
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	answer := http.NewResponseController(w)
	for err == nil {
		s.mu.Lock()
		changed, events := s.changed, s.events[seen:]
		s.mu.Unlock()
		for _, event := range events {
			_, err = w.Write(event)
		}
		seen += len(events)
		if flushed := answer.Flush(); err == nil {
			err = flushed
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}

// devices adds the devices of all slices to the state of the agent.
func (s *sliceServer) devices(to state) error {
	for _, slice := range s.list().Items {
		for _, device := range slice.Spec.Devices {
			text, err := json.Marshal(device)
			if err != nil {
				return err
			}
			to["device "+device.Name] = string(text)
		}
	}
	return nil
}

// registration is the name of the socket at which the DRA plugin waits for the kubelet.
const registration = "gpu.nvidia.com-reg.sock"

// acceptPlugin registers the plugin of a socket as the kubelet does: it tries until it has, or ctx ends.
func acceptPlugin(ctx context.Context, socket string) error {
	const pause = time.Second / 5
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: pause, Multiplier: 1, MaxDelay: pause}, MinConnectTimeout: promised}))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := registerapi.NewRegistrationClient(conn)
	for {
		_, err := client.GetInfo(ctx, &registerapi.InfoRequest{}, grpc.WaitForReady(true))
		if err == nil {
			_, err = client.NotifyRegistrationStatus(ctx, &registerapi.RegistrationStatus{PluginRegistered: true})
		}
		if err == nil || !pace.Pause(ctx, pause) {
			return nil
		}
	}
}
