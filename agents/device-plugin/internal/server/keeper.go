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

// Recheck is how often the sockets are looked at without a Wake.
const Recheck = 10 * time.Second

// keeper keeps the socket in place and the resource registered. One goroutine
// owns it.
type keeper struct {
	server *Server
	grpc   *grpc.Server
	log    *slog.Logger

	socket *socket
	// kubelet is the registration socket that took the last registration.
	kubelet  os.FileInfo
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
		if err := k.check(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			k.warn(err)
			timer.Reset(retry)
			retry = min(2*retry, retryMax)
			continue
		}
		k.complain = ""
		retry = retryMin
		timer.Reset(Recheck)
	}
}

// check puts right whatever is not as it should be; it does nothing if
// nothing is.
func (k *keeper) check(ctx context.Context) error {
	if k.server.takeAgain() {
		k.kubelet = nil
	}
	if k.socket == nil || k.socket.missing() {
		if err := k.serve(); err != nil {
			k.server.update(func(st *Status) { st.Serving = false })
			return err
		}
		k.kubelet = nil
	}
	if !k.socket.ours() {
		k.unregistered()
		return fmt.Errorf("keep socket %s: %w", k.socket.path, errForeign)
	}
	k.server.update(func(st *Status) { st.Serving = true })
	if !k.server.cfg.Register {
		return nil
	}
	file, err := os.Lstat(k.server.cfg.KubeletSocket)
	if err != nil {
		k.unregistered()
		return fmt.Errorf("find the kubelet: %w", err)
	}
	if k.kubelet != nil && sameSocket(k.kubelet, file) {
		return nil
	}
	k.unregistered()
	err = k.register(ctx)
	k.server.cfg.Recorder.Registered(k.server.cfg.Resource, err)
	if err != nil {
		return err
	}
	k.kubelet = file
	k.server.update(func(st *Status) { st.Registered = true })
	k.log.Info("registered with the kubelet", "resource", k.server.cfg.Resource, "socket", k.socket.path)
	return nil
}

func (k *keeper) unregistered() {
	k.kubelet = nil
	k.server.update(func(st *Status) { st.Registered = false })
}

// serve opens the socket. Streams that came in by an earlier one stay open.
func (k *keeper) serve() error {
	if k.socket != nil {
		if err := k.socket.close(); err != nil {
			k.log.Warn("close old socket", "socket", k.socket.path, "err", err)
		}
		k.socket = nil
	}
	s, err := listen(k.server.path)
	if err != nil {
		return err
	}
	k.socket = s
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

// warn logs a trouble once, not at every retry.
func (k *keeper) warn(err error) {
	if k.complain == err.Error() {
		k.log.Debug("still not registered", "resource", k.server.cfg.Resource, "err", err)
		return
	}
	k.complain = err.Error()
	k.log.Warn("not registered with the kubelet, retrying", "resource", k.server.cfg.Resource, "err", err)
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
