package server

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/resource"
)

// slowStream is a kubelet that receives a list when the test does.
type slowStream struct {
	grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]
	ctx   context.Context
	lists chan *pluginapi.ListAndWatchResponse
}

func (s slowStream) Context() context.Context { return s.ctx }

func (s slowStream) Send(m *pluginapi.ListAndWatchResponse) error {
	select {
	case s.lists <- m:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// A kubelet that has not received the empty list yet still counts the devices, so a
// server that leaves waits for it.
func TestLeaveWaitsForASlowKubelet(t *testing.T) {
	changed := make(chan struct{}, 16)
	s := New(Config{
		Resource: "nvidia.com/gpu", KubeletSocket: "/none/kubelet.sock",
		Changed: func() { changed <- struct{}{} }, Log: slog.New(slog.DiscardHandler),
	})
	woken := make(chan struct{}, 1)
	s.registration.wake = func() { pace.Signal(woken) }
	s.Publish(resource.Resource{Name: "nvidia.com/gpu", Devices: []resource.Device{{UUID: "GPU-a"}, {UUID: "GPU-b"}}}, allocate.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	stream := slowStream{ctx: ctx, lists: make(chan *pluginapi.ListAndWatchResponse)}
	done := make(chan error, 1)
	go func() { done <- s.ListAndWatch(nil, stream) }()
	t.Cleanup(func() { cancel(); <-done })
	<-stream.lists
	<-changed // the status is: listed

	parting := func() (time.Duration, bool) {
		st, _ := s.feed.get()
		return s.registration.checkWithdrawal(st.number)
	}
	s.Withdraw()
	if wait, leaves := parting(); !leaves || wait <= 0 {
		t.Fatalf("checkWithdrawal() = %v, %t before the kubelet received the empty list", wait, leaves)
	}
	if l := <-stream.lists; len(l.GetDevices()) != 0 {
		t.Error("the last list has devices")
	}
	for end := time.Now().Add(receiveGrace / 2); ; {
		wait, leaves := parting()
		if leaves && wait <= 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("checkWithdrawal() = %v, %t after the kubelet received the empty list", wait, leaves)
		}
		<-woken
	}
}
