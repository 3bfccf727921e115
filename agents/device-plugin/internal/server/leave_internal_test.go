package server

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/resource"
)

// slowStream is a kubelet that takes a list when the test does.
type slowStream struct {
	grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]
	ctx   context.Context
	lists chan list
}

func (s slowStream) Context() context.Context { return s.ctx }

func (s slowStream) SendMsg(m any) error {
	select {
	case s.lists <- m.(list):
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// A kubelet that has not taken the empty list yet would go on to count the
// devices: a server that leaves waits for it.
func TestASlowKubeletIsWaitedFor(t *testing.T) {
	told := make(chan struct{}, 16)
	s := New(Config{
		Resource: "nvidia.com/gpu", KubeletSocket: "/none/kubelet.sock",
		Changed: func() { told <- struct{}{} }, Log: slog.New(slog.DiscardHandler),
	})
	s.Publish(resource.Resource{Name: "nvidia.com/gpu", Devices: devices(2, 1)}, allocate.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	stream := slowStream{ctx: ctx, lists: make(chan list)}
	done := make(chan error, 1)
	go func() { done <- s.ListAndWatch(nil, stream) }()
	t.Cleanup(func() { cancel(); <-done })
	<-stream.lists
	<-told // the status is: listed

	s.Leave()
	if wait, leaving := s.parting(); !leaving || wait <= 0 {
		t.Fatalf("parting() = %v, %t before the kubelet took the empty list", wait, leaving)
	}
	if l := <-stream.lists; l.wire.Len() != 0 {
		t.Error("the last list has devices")
	}
	for end := time.Now().Add(leaveGrace / 2); ; {
		wait, leaving := s.parting()
		if leaving && wait <= 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("parting() = %v, %t after the kubelet took the empty list", wait, leaving)
		}
		<-s.wake
	}
}
