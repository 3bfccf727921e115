package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

const (
	registerTimeout = 5 * time.Second
	retryMin        = time.Millisecond
	retryMax        = 5 * time.Second
)

// Recheck is the interval between a Server's checks of its sockets without a Wake. The checks
// are only a safeguard, because a kubelet that restarts ends its stream, which the Server
// notices at once.
const Recheck = time.Minute

const (
	// hangUpGrace is how long the kubelet may take to end the streams of a withdrawn resource,
	// and how long it then gets to clean up.
	hangUpGrace = time.Second
	// Patience is how long the kubelet may be gone before a warning is logged. A restart is
	// shorter.
	Patience = 2 * time.Second
)

var (
	errForeign   = errors.New("another device plugin has taken the socket: stop it, or this one")
	errConnected = errors.New("the kubelet still has an earlier connection to the socket")
)

// alreadyConnected is part of the error of a kubelet (1.37 and later) that still has a
// connection to the socket for the resource.
const alreadyConnected = "device plugin already connected"

// keeper keeps the socket in place and the resource registered. The loop of the server owns
// it. The server's registration has the state of the resource at the kubelet.
type keeper struct {
	server *Server
	grpc   *grpc.Server
	log    *slog.Logger

	socket *socket
	// renames counts the new file names of the socket.
	renames int
	// taken is set while another plugin has a socket at this path.
	taken bool
	// troubleSince is the time when the present error began, and logged is the last warning.
	troubleSince time.Time
	logged       reconcile.Status
	serving      sync.WaitGroup
	crashed      chan error
	// endLoop ends the loop.
	endLoop context.CancelFunc
}

func (k *keeper) run(ctx context.Context) error {
	k.grpc = grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(k.grpc, k.server)
	defer k.stop()
	ctx, k.endLoop = context.WithCancel(ctx)
	defer k.endLoop()
	return k.server.loop.Run(ctx)
}

// step checks the socket and the registration, or withdraws the resource.
func (k *keeper) step(ctx context.Context) (reconcile.Result, error) {
	select {
	case err := <-k.crashed:
		return reconcile.Result{}, reconcile.Fatal(err)
	default:
	}
	st, _ := k.server.feed.get()
	if wait, leaves := k.server.registration.checkWithdrawal(st.number); leaves {
		if wait <= 0 {
			k.withdraw(ctx)
			k.endLoop()
		}
		return reconcile.Result{After: wait}, nil
	}
	next, err := k.check(ctx)
	if err != nil {
		if ctx.Err() == nil {
			k.warn(err)
		}
		if errors.Is(err, errConnected) && time.Since(k.troubleSince) >= Patience {
			k.renameSocket()
			return reconcile.Result{After: retryMin}, nil
		}
		return reconcile.Result{}, err
	}
	k.logged.Set(nil)
	k.troubleSince = time.Time{}
	return reconcile.Result{After: min(next, Recheck)}, nil
}

// check serves and registers if that is necessary. It returns the duration until the next
// check.
func (k *keeper) check(ctx context.Context) (time.Duration, error) {
	reg := k.server.registration
	// The kubelet empties the folder before it creates its socket. So look for the kubelet's
	// socket first: then our socket exists when a new kubelet connects to it.
	file, kubeletErr := os.Lstat(k.server.cfg.KubeletSocket)
	if err := k.keepSocket(); err != nil {
		return 0, err
	}
	if k.taken {
		// The kubelet has forgotten the plugin that these streams belong to.
		k.taken = false
		reg.endStreams()
	}
	reg.setServing(true)
	if !k.server.cfg.Register {
		return Recheck, nil
	}
	if kubeletErr != nil {
		reg.setUnregistered()
		return 0, fmt.Errorf("find the kubelet: %w: wait until the kubelet runs; if it does, mount its folder %s at the same path, or set --kubelet-socket",
			kubeletErr, filepath.Dir(k.server.cfg.KubeletSocket))
	}
	if wait := reg.timeToRegister(file); wait > 0 {
		return wait, nil
	}
	err := k.register(ctx)
	k.server.cfg.Recorder.Registered(k.server.cfg.Resource, err)
	if err != nil {
		return 0, err
	}
	grace := reg.setRegistered(file, time.Now())
	k.log.Info("registered with the kubelet", "resource", k.server.cfg.Resource, "socket", k.socket.path)
	return grace, nil
}

// keepSocket keeps the socket at its path, unless another plugin has a socket there.
func (k *keeper) keepSocket() error {
	if k.socket != nil {
		switch k.socket.check() {
		case placeOurs:
			return nil
		case placeForeign:
			k.taken = true
			k.server.registration.setUnregistered()
			return fmt.Errorf("keep socket %s: %w", k.socket.path, errForeign)
		case placeEmpty:
		}
	}
	if err := k.serve(); err != nil {
		k.server.registration.setServing(false)
		return err
	}
	return nil
}

// path returns the present path of the socket. "~" cannot be in a resource name.
func (k *keeper) path() string {
	if k.renames == 0 {
		return k.server.path
	}
	return fmt.Sprintf("%s~%d.sock", strings.TrimSuffix(k.server.path, ".sock"), k.renames)
}

// renameSocket gives the socket another name. It is for a kubelet that rejected a second
// connection to the socket. Such a kubelet forgets to clean up the first connection, and then
// rejects this socket until the kubelet restarts.
func (k *keeper) renameSocket() {
	old := k.path()
	k.closeSocket()
	k.server.registration.setServing(false)
	k.renames++
	k.logged.Set(nil)
	k.troubleSince = time.Time{}
	k.log.Warn("the kubelet still has an earlier connection to the socket, registering at another one",
		"resource", k.server.cfg.Resource, "socket", old, "other", k.path())
}

// closeSocket stops accepting, and removes the socket.
func (k *keeper) closeSocket() {
	if k.socket == nil {
		return
	}
	if err := k.socket.close(); err != nil {
		k.log.Warn("remove socket", "socket", k.socket.path, "err", err)
	}
	k.socket = nil
}

// serve opens the socket. Streams of an earlier socket stay open.
func (k *keeper) serve() error {
	old := k.socket
	if old == nil {
		if err := removeLeftover(k.path()); err != nil {
			return err
		}
	}
	s, err := listen(k.path())
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
		// A replaced socket is closed on purpose.
		if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, grpc.ErrServerStopped) {
			return
		}
		select {
		case k.crashed <- err:
			k.server.loop.Wake()
		default:
		}
	})
	return nil
}

func (k *keeper) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	sock := k.server.cfg.KubeletSocket
	conn, err := grpc.NewClient("unix://"+sock, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to the kubelet at %s: %w", sock, err)
	}
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version:      pluginapi.Version,
		Endpoint:     filepath.Base(k.path()),
		ResourceName: k.server.cfg.Resource,
		Options:      options(),
	})
	if err != nil {
		if strings.Contains(status.Convert(err).Message(), alreadyConnected) {
			err = fmt.Errorf("%w: %w", errConnected, err)
		}
		return errors.Join(fmt.Errorf("register %s with the kubelet at %s: %w", k.server.cfg.Resource, sock, err), conn.Close())
	}
	return conn.Close()
}

// warn logs an error once if it lasts for Patience, and not at each retry.
func (k *keeper) warn(err error) {
	if k.troubleSince.IsZero() {
		k.troubleSince = time.Now()
	}
	if time.Since(k.troubleSince) < Patience || !k.logged.Set(err) {
		k.log.Debug("not registered with the kubelet yet", "resource", k.server.cfg.Resource, "err", err)
		return
	}
	k.log.Warn("not registered with the kubelet, retrying", "resource", k.server.cfg.Resource, "err", err)
}

// withdraw ends the streams gracefully, so that the kubelet receives the last lists. It waits
// at most hangUpGrace for the kubelet to hang up, and then the same time for it to clean up.
// The resource must not be registered again before that, see renameSocket.
func (k *keeper) withdraw(ctx context.Context) {
	k.closeSocket()
	k.server.registration.endStreams()
	cut := time.AfterFunc(hangUpGrace, k.grpc.Stop)
	k.grpc.GracefulStop()
	cut.Stop()
	k.log.Info("resource withdrawn from the kubelet", "resource", k.server.cfg.Resource)
	pace.Pause(ctx, hangUpGrace)
}

func (k *keeper) stop() {
	k.closeSocket()
	k.grpc.Stop()
	k.serving.Wait()
}
