package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	registerTimeout = 5 * time.Second
	retryMin        = time.Millisecond
	retryMax        = 5 * time.Second
)

// Recheck is how often a Server checks its sockets without a Wake. It is a backstop:
// a kubelet that restarts ends its stream, which is noticed at once.
const Recheck = time.Minute

const (
	// listGrace is how long the kubelet may take from a registration to asking
	// for the devices before it is made again; it doubles up to listGraceMax.
	listGrace    = 5 * time.Second
	listGraceMax = time.Minute
	// endGrace is how long the kubelet has to clean up after a stream has ended.
	// A registration that it takes before it has is undone by that.
	endGrace = 2 * time.Second
	// partGrace is how long the kubelet may take to hang up on a resource that is
	// gone.
	partGrace = time.Second
	// Patience is how long what a kubelet that restarts does goes unmentioned.
	Patience = 2 * time.Second
)

// keeper keeps the socket in place and the resource registered. One goroutine
// owns it.
type keeper struct {
	server *Server
	grpc   *grpc.Server
	log    *slog.Logger

	socket *socket
	// taken is set while another plugin has the socket.
	taken bool
	// kubelet is the registration socket that took the last registration, at
	// registered; grace is how long it may take from there.
	kubelet    os.FileInfo
	registered time.Time
	grace      time.Duration

	// troubled is when the present trouble began, complain what was told of it.
	troubled time.Time
	complain string
	serving  sync.WaitGroup
	crashed  chan error
}

func (k *keeper) run(ctx context.Context) error {
	k.crashed = make(chan error, 1)
	defer k.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	retry := retryMin
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-k.crashed:
			return err
		case <-k.server.wake:
			retry = retryMin
		case <-timer.C:
		}
		if wait, leaving := k.server.parting(); leaving {
			if wait <= 0 {
				k.part()
				return nil
			}
			timer.Reset(wait)
			continue
		}
		next, err := k.check(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			k.warn(err)
			timer.Reset(retry)
			retry = min(2*retry, retryMax)
			continue
		}
		k.complain, k.troubled = "", time.Time{}
		retry = retryMin
		timer.Reset(min(next, Recheck))
	}
}

// check puts right whatever is not as it should be; it does nothing if
// nothing is. It returns when to check again.
func (k *keeper) check(ctx context.Context) (time.Duration, error) {
	// The kubelet empties the folder before it makes its socket: seen in this
	// order, our own is there when a new kubelet comes for it.
	file, kubeletErr := os.Lstat(k.server.cfg.KubeletSocket)
	if err := k.keep(); err != nil {
		return 0, err
	}
	if k.taken {
		// The kubelet has forgotten the plugin to which these streams belong.
		k.taken = false
		k.server.endStreams()
	}
	k.server.update(func(st *Status) { st.Serving = true })
	if !k.server.cfg.Register {
		return Recheck, nil
	}
	if kubeletErr != nil {
		k.unregistered()
		return 0, fmt.Errorf("find the kubelet: %w", kubeletErr)
	}
	if wait := k.due(file); wait > 0 {
		k.server.update(func(st *Status) { st.Registered = true })
		return wait, nil
	}
	k.unregistered()
	err := k.register(ctx)
	k.server.cfg.Recorder.Registered(k.server.cfg.Resource, err)
	if err != nil {
		return 0, err
	}
	k.kubelet, k.registered = file, time.Now()
	k.server.update(func(st *Status) { st.Registered = true })
	k.log.Info("registered with the kubelet", "resource", k.server.cfg.Resource, "socket", k.socket.path)
	return k.grace, nil
}

// keep keeps the socket in its place, unless another plugin has taken that.
func (k *keeper) keep() error {
	if k.socket != nil {
		switch k.socket.look() {
		case placeOurs:
			return nil
		case placeForeign:
			k.taken = true
			k.unregistered()
			return fmt.Errorf("keep socket %s: %w", k.socket.path, errForeign)
		case placeEmpty:
		}
	}
	if err := k.serve(); err != nil {
		k.server.update(func(st *Status) { st.Serving = false })
		return err
	}
	return nil
}

// due returns how long there is no need to register. A kubelet that still holds
// a stream must not be asked again: it would keep the old stream beside the new
// one, and take the plugin for gone when either ends.
func (k *keeper) due(file os.FileInfo) time.Duration {
	if k.kubelet == nil || !sameSocket(k.kubelet, file) {
		k.grace = listGrace
		return 0
	}
	open, ended := k.server.listed()
	if open {
		k.grace = listGrace
		return Recheck
	}
	wait := time.Until(k.registered.Add(k.grace))
	if ended.After(k.registered) {
		wait = time.Until(ended.Add(endGrace))
	}
	if wait <= 0 {
		k.grace = min(2*k.grace, listGraceMax)
	}
	return wait
}

func (k *keeper) unregistered() {
	k.server.update(func(st *Status) { st.Registered = false })
}

// serve opens the socket. Streams that came in by an earlier one stay open.
func (k *keeper) serve() error {
	old := k.socket
	if old == nil {
		if err := removeLeftover(k.server.path); err != nil {
			return err
		}
	}
	s, err := listen(k.server.path)
	if err != nil {
		return err
	}
	k.socket = s
	if old != nil {
		if err := old.close(); err != nil {
			k.log.Warn("close old socket", "socket", old.path, "err", err)
		}
	}
	k.serving.Go(func() {
		err := k.grpc.Serve(s.listener)
		// A socket that was replaced is closed by intent.
		if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, grpc.ErrServerStopped) {
			return
		}
		select {
		case k.crashed <- err:
		default:
		}
	})
	return nil
}

func (k *keeper) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	sock := k.server.cfg.KubeletSocket
	conn, err := grpc.NewClient("unix://"+sock,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(),
		grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10))
	if err != nil {
		return fmt.Errorf("connect to the kubelet at %s: %w", sock, err)
	}
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version:      pluginapi.Version,
		Endpoint:     SocketName(k.server.cfg.Resource),
		ResourceName: k.server.cfg.Resource,
		Options:      options(),
	})
	if err != nil {
		return errors.Join(fmt.Errorf("register %s with the kubelet at %s: %w", k.server.cfg.Resource, sock, err), conn.Close())
	}
	return conn.Close()
}

// warn logs a trouble that lasts, once, and not at every retry.
func (k *keeper) warn(err error) {
	if k.troubled.IsZero() {
		k.troubled = time.Now()
	}
	if k.complain == err.Error() || time.Since(k.troubled) < Patience {
		k.log.Debug("still not registered", "resource", k.server.cfg.Resource, "err", err)
		return
	}
	k.complain = err.Error()
	k.log.Warn("not registered with the kubelet, retrying", "resource", k.server.cfg.Resource, "err", err)
}

// part takes leave of the kubelet: streams end in good order, so that what they
// were sent arrives, and one that does not hang up is not waited for long.
func (k *keeper) part() {
	if k.socket != nil {
		if err := k.socket.close(); err != nil {
			k.log.Warn("remove socket", "socket", k.socket.path, "err", err)
		}
		k.socket = nil
	}
	k.server.endStreams()
	cut := time.AfterFunc(partGrace, k.grpc.Stop)
	k.grpc.GracefulStop()
	cut.Stop()
	k.log.Info("resource is no longer registered", "resource", k.server.cfg.Resource)
}

func (k *keeper) stop() {
	if k.socket != nil {
		if err := k.socket.close(); err != nil {
			k.log.Warn("remove socket", "socket", k.socket.path, "err", err)
		}
	}
	k.grpc.Stop()
	k.serving.Wait()
}
