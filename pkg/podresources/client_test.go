package podresources_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T, socket string) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	assert.NilError(t, err)
	return l
}

// client returns a Client that waits for a slow machine, unless it has a time-out.
func client(t *testing.T, cfg podresources.Config) *podresources.Client {
	t.Helper()
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute)
	c, err := podresources.New(cfg)
	assert.NilError(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// failing is an answer with an error.
func failing(code codes.Code, message string) podresourcestest.Answer {
	return func(context.Context) (*kubelet.ListPodResourcesResponse, error) {
		return nil, status.Error(code, message)
	}
}

// user returns a pod with devices.
func user(ids ...string) *kubelet.PodResources {
	return podresourcestest.Pod("ns", "pod", podresourcestest.Container("main", "nvidia.com/gpu", ids...))
}

// fails refreshes, and checks that it fails with a class, and an error that has all words.
func fails(t *testing.T, c *podresources.Client, class podresources.Class, words ...string) {
	t.Helper()
	before := c.Last()
	err := c.Refresh(t.Context(), podresources.Options{})
	failed, ok := errors.AsType[*podresources.Error](err)
	if !ok || failed.Class != class {
		t.Fatalf("error %v, want class %s", err, class)
	}
	for _, word := range append(words, "ask the kubelet at "+failed.Socket) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q, want %q in it", err, word)
		}
	}
	last := c.Last()
	if !errors.Is(last.Err, err) || last.Failures[class] != before.Failures[class]+1 {
		t.Errorf("last error %v, %d failures", last.Err, last.Failures[class])
	}
	if d := gocmp.Diff(before.Map, last.Map); d != "" || !last.At.Equal(before.At) {
		t.Errorf("the last good map has changed, at %s:\n%s", last.At, d)
	}
}

func TestClientKeepsOneConnectionAndTheLastMap(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k := podresourcestest.Start(t, socket)
	k.Set(user(whole))
	c := client(t, podresources.Config{Socket: socket})
	if last := c.Last(); last.Map != nil || !last.At.IsZero() || len(last.Failures) != len(podresources.Classes()) {
		t.Errorf("before the first answer: %+v", last)
	}
	started := time.Now()
	for range 3 {
		assert.NilError(t, c.Refresh(t.Context(), podresources.Options{}))
	}
	if n := k.Connections(); n != 1 {
		t.Errorf("%d connections for three refreshes", n)
	}
	last := c.Last()
	if len(last.Map[whole]) != 1 || last.At.Before(started) || last.Err != nil {
		t.Errorf("state %+v", last)
	}

	k.Stop()
	fails(t, c, podresources.ClassMissing, "no such file", "mount its folder pod-resources")
	fails(t, c, podresources.ClassMissing)
	podresourcestest.Start(t, socket).Set(user(whole, cut))
	assert.NilError(t, c.Refresh(t.Context(), podresources.Options{}))
	if last := c.Last(); len(last.Map) != 2 || last.Err != nil || last.Failures[podresources.ClassMissing] != 2 {
		t.Errorf("state after the kubelet came back: %+v", last)
	}
}

func TestClientNoticesNoRestartOfTheKubelet(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	c := client(t, podresources.Config{Socket: socket})
	for range 20 {
		k := podresourcestest.Start(t, socket)
		assert.NilError(t, c.Refresh(t.Context(), podresources.Options{}))
		k.Stop()
	}
	if last := c.Last(); last.Failures[podresources.ClassInvalid]+last.Failures[podresources.ClassMissing] != 0 {
		t.Errorf("failures: %v", last.Failures)
	}
}

func TestClientSurvivesASlowKubelet(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	asked := make(chan struct{}, 1)
	podresourcestest.Start(t, socket).Answer(func(ctx context.Context) (*kubelet.ListPodResourcesResponse, error) {
		pace.Signal(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	fails(t, client(t, podresources.Config{Socket: socket, Timeout: 100 * time.Millisecond}), podresources.ClassTimeout, "no answer in time")
	pace.Drain(asked)

	// A caller that ends is no failure of the kubelet, and a reader does not wait for a refresh.
	c := client(t, podresources.Config{Socket: socket})
	ctx, cancel := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() {
		defer cancel()
		<-asked
		c.Last()
	})
	assert.ErrorIs(t, c.Refresh(ctx, podresources.Options{}), context.Canceled)
	reading.Wait()
	if last := c.Last(); last.Failures[podresources.ClassTimeout] != 0 || last.Err != nil {
		t.Errorf("state %+v", last)
	}
}

func TestClientReadsLargeAnswersToALimit(t *testing.T) {
	t.Parallel()
	many := func(n int, of func(i int) *kubelet.PodResources) []*kubelet.PodResources {
		out := make([]*kubelet.PodResources, n)
		for i := range out {
			out[i] = of(i)
		}
		return out
	}
	replicas := func(n int) []string {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("%s::%d", whole, i)
		}
		return ids
	}
	idle := func(i int) *kubelet.PodResources { return podresourcestest.Pod("ns", fmt.Sprint("pod-", i)) }
	for name, c := range map[string]struct {
		pods []*kubelet.PodResources
		// err is in the error, which is of the class too_large. users are expected without an error.
		err   string
		users int
	}{
		"as many users as the largest nodes have": {pods: many(1000, func(i int) *kubelet.PodResources {
			return podresourcestest.Pod("ns", fmt.Sprint("pod-", i), podresourcestest.Container("main", "nvidia.com/gpu", whole))
		}), users: 1000},
		"devices of another resource do not count": {pods: []*kubelet.PodResources{ // 10 MB
			podresourcestest.Pod("ns", "vm", podresourcestest.Container("main", "example.com/memory", strings.Split(strings.Repeat("0123456789,", 900_000), ",")...)),
			user(whole),
		}, users: 1},
		"pods without devices do not count": {pods: append(many(100_000, idle), user(whole)), users: 1},
		"too many pods with a GPU": {pods: many(100_000, func(i int) *kubelet.PodResources {
			return podresourcestest.Pod("ns", fmt.Sprint("pod-", i), podresourcestest.Container("main", "nvidia.com/gpu", whole))
		}), err: "too many users of GPUs: more than 1000"},
		"too many replicas in one pod": {pods: []*kubelet.PodResources{user(replicas(1001)...)}, err: "too many replicas"},
		"too many unknown devices": {pods: many(1001, func(i int) *kubelet.PodResources {
			return podresourcestest.Pod("ns", fmt.Sprint("pod-", i), podresourcestest.Container("main", "nvidia.com/gpu", "unknown"))
		}), err: "too many users of GPUs"},
		"too many bytes": {pods: many(400_000, func(int) *kubelet.PodResources {
			return podresourcestest.Pod("ns", strings.Repeat("x", 50))
		}), err: "larger than max"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := filepath.Join(t.TempDir(), "kubelet.sock")
			k := podresourcestest.Start(t, socket)
			k.Set(user(whole))
			client := client(t, podresources.Config{Socket: socket})
			assert.NilError(t, client.Refresh(t.Context(), podresources.Options{}))
			k.Set(c.pods...)
			if c.err != "" {
				fails(t, client, podresources.ClassTooLarge, c.err, "find the device plugin")
				return
			}
			assert.NilError(t, client.Refresh(t.Context(), podresources.Options{}))
			if n := len(client.Last().Map[whole]); n != c.users {
				t.Errorf("%d users, want %d", n, c.users)
			}
		})
	}
}

func TestClientNamesWhatTheKubeletRejects(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k := podresourcestest.Start(t, socket)
	k.Answer(failing(codes.ResourceExhausted, "rejected by rate limit"))
	c := client(t, podresources.Config{Socket: socket})
	fails(t, c, podresources.ClassRejected, "rejected by rate limit")
	k.Answer(failing(codes.Unimplemented, "unknown service v1.PodResourcesLister"))
	fails(t, c, podresources.ClassRejected, "unknown service", "check the version")
}

// raw is a codec that sends what it is given.
type raw struct{ encoding.CodecV2 }

func (raw) Name() string { return "proto" }
func (raw) Marshal(any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer("\xff\xff")}, nil
}
func (raw) Unmarshal(_ mem.BufferSlice, _ any) error { return nil }

func TestClientRejectsGarbage(t *testing.T) {
	t.Parallel()
	t.Run("a message of another protocol", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "kubelet.sock")
		podresourcestest.Start(t, socket, grpc.ForceServerCodecV2(raw{}))
		fails(t, client(t, podresources.Config{Socket: socket}), podresources.ClassInvalid, "no list of pods", "check that it is the socket of the kubelet")
	})
	t.Run("a server that speaks no gRPC", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "kubelet.sock")
		l := listen(t, socket)
		var serving sync.WaitGroup
		serving.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "220 mail.example.com ESMTP ready, and this is longer than a frame\r\n")
				_ = conn.Close()
			}
		})
		t.Cleanup(func() {
			_ = l.Close()
			serving.Wait()
		})
		fails(t, client(t, podresources.Config{Socket: socket}), podresources.ClassInvalid)
	})
	t.Run("a file that is no socket", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "kubelet.sock")
		assert.NilError(t, os.WriteFile(file, nil, 0o600))
		fails(t, client(t, podresources.Config{Socket: file}), podresources.ClassMissing, "connection refused")
	})
	t.Run("a socket for datagrams", func(t *testing.T) {
		socket := filepath.Join(t.TempDir(), "kubelet.sock")
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		assert.NilError(t, err)
		defer l.Close()
		fails(t, client(t, podresources.Config{Socket: socket}), podresources.ClassInvalid, "wrong type")
	})
	t.Run("a path that is too long", func(t *testing.T) {
		if _, err := podresources.New(podresources.Config{Socket: "/" + strings.Repeat("x", 200)}); err == nil {
			t.Error("no error")
		}
	})
}

func TestClientIsNotAccepted(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	assert.NilError(t, err)
	defer syscall.Close(fd)
	assert.NilError(t, errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}), syscall.Listen(fd, 0)))
	fails(t, client(t, podresources.Config{Socket: socket, Timeout: 100 * time.Millisecond}), podresources.ClassTimeout, "no answer in time")
	waiting, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
	if err == nil {
		defer waiting.Close()
	}
	fails(t, client(t, podresources.Config{Socket: socket}), podresources.ClassTimeout, "temporarily unavailable") // the queue is full
}

func TestClientEndsAnAnswerThatNeverEnds(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: &protocols, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_, err := w.Write([]byte{0, 0, 0xc0, 0, 0}) // a message of 12 MiB
		for err == nil && r.Context().Err() == nil {
			_, err = w.Write([]byte{0})
			err = errors.Join(err, http.NewResponseController(w).Flush())
		}
	})}
	l := listen(t, socket)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	fails(t, client(t, podresources.Config{Socket: socket, Timeout: 200 * time.Millisecond}), podresources.ClassTimeout)
}

func TestClientMayNotConnect(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	podresourcestest.Start(t, socket)
	assert.NilError(t, os.Chmod(socket, 0))
	if os.Geteuid() == 0 {
		// All threads lose the rights of root, while no other test runs.
		assert.NilError(t, syscall.Seteuid(65534))
		defer func() {
			assert.NilError(t, syscall.Seteuid(0))
		}()
	}
	fails(t, client(t, podresources.Config{Socket: socket}), podresources.ClassDenied, syscall.EACCES.Error(), "run as user 0")
}

func TestThePodOfAName(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k := podresourcestest.Start(t, socket)
	main := podresourcestest.Container("main", "nvidia.com/gpu", "GPU-1", "GPU-2")
	main.Devices = append(main.Devices, podresourcestest.Container("", "example.com/nic", "eth1").GetDevices()...)
	k.Set(
		podresourcestest.Pod("a", "pod", main, &kubelet.ContainerResources{Name: "side"}),
		podresourcestest.Pod("b", "pod", podresourcestest.Container("main", "nvidia.com/gpu", "GPU-3")),
		podresourcestest.Pod("b", "twice"), podresourcestest.Pod("b", "twice"),
	)
	c := client(t, podresources.Config{Socket: socket})
	for name, tc := range map[string]struct {
		namespace, pod string
		want           podresources.Pod
		err            string
	}{
		"a pod has the devices of each container": {namespace: "a", pod: "pod", want: podresources.Pod{
			"main": {{Resource: "nvidia.com/gpu", ID: "GPU-1"}, {Resource: "nvidia.com/gpu", ID: "GPU-2"}, {Resource: "example.com/nic", ID: "eth1"}},
			"side": nil,
		}},
		"a pod of another namespace has its own":    {namespace: "b", pod: "pod", want: podresources.Pod{"main": {{Resource: "nvidia.com/gpu", ID: "GPU-3"}}}},
		"a pod that the kubelet does not know":      {namespace: "c", pod: "pod"},
		"two pods of one name cannot be told apart": {namespace: "b", pod: "twice", err: "the kubelet lists two pods b/twice: wait until the older one is gone"},
	} {
		got, err := c.Pod(t.Context(), tc.namespace, tc.pod)
		if tc.err == "" && err != nil || tc.err != "" && (err == nil || err.Error() != tc.err) {
			t.Errorf("%s: the error is %v, want %q", name, err, tc.err)
		}
		if d := gocmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if n := k.Connections(); n != 1 {
		t.Errorf("%d connections for four questions", n)
	}
	k.Stop()
	_, err := c.Pod(t.Context(), "a", "pod")
	if failed, ok := errors.AsType[*podresources.Error](err); !ok || failed.Class != podresources.ClassMissing {
		t.Errorf("without a kubelet the error is %v", err)
	}
	podresourcestest.Start(t, socket)
	if got, err := c.Pod(t.Context(), "a", "pod"); err != nil || got != nil {
		t.Errorf("from the next kubelet: %v, %v", got, err)
	}
}
