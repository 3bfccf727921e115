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

// Recheck is how often a Server checks its sockets without a Wake. It is a backstop:
// a kubelet that restarts ends its stream, which is noticed at once.
const Recheck = time.Minute

const (
	// partGrace is how long the kubelet may take to hang up on a withdrawn resource, and
	// then to clean up.
	hangUpGrace = time.Second
	// Patience is how long the restart of a kubelet is not worth a warning.
	Patience = 2 * time.Second
)

var (
	errForeign   = errors.New("another device plugin has taken the socket: stop it, or this one")
	errConnected = errors.New("the kubelet still counts an earlier connection to the socket")
)

// counted is in the error of a kubelet (1.37 and later) that knows a connection to the
// socket for the resource.
const alreadyConnected = "device plugin already connected"

// keeper keeps the socket in place and the resource registered. The loop of the server owns
// it; what the kubelet knows is in the server's registration.
type keeper struct {
	server *Server
	grpc   *grpc.Server
	log    *slog.Logger

	socket *socket
	// moves is how often the socket got another name.
	renames int
	// taken is set while another plugin has the place of the socket.
	taken bool
	// troubled is when the present trouble began, and logged its last warning.
	troubleSince time.Time
	logged       reconcile.Status
	serving      sync.WaitGroup
	crashed      chan error
	// leave ends the loop.
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

// step does what is due.
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

// check serves and registers if that is due, and returns when to check again.
func (k *keeper) check(ctx context.Context) (time.Duration, error) {
	reg := k.server.registration
	// The kubelet empties the folder before it makes its socket. In this order our
	// own socket exists when a new kubelet connects to it.
	file, kubeletErr := os.Lstat(k.server.cfg.KubeletSocket)
	if err := k.keepSocket(); err != nil {
		return 0, err
	}
	if k.taken {
		// The kubelet has forgotten the plugin to which these streams belong.
		k.taken = false
		reg.endStreams()
	}
	reg.setServing(true)
	if !k.server.cfg.Register {
		return Recheck, nil
	}
	if kubeletErr != nil {
		reg.setUnregistered()
		return 0, fmt.Errorf("find the kubelet: %w", kubeletErr)
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

// keep keeps the socket in its place, unless another plugin has taken that place.
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

// path returns where the socket is now. A resource name has no "~".
func (k *keeper) path() string {
	if k.renames == 0 {
		return k.server.path
	}
	return fmt.Sprintf("%s~%d.sock", strings.TrimSuffix(k.server.path, ".sock"), k.renames)
}

// move gives the socket another name. The kubelet that refuses a second connection to a
// socket forgets that it has the first one to end, and from then on refuses that socket
// until it restarts.
func (k *keeper) renameSocket() {
	old := k.path()
	k.closeSocket()
	k.server.registration.setServing(false)
	k.renames++
	k.logged.Set(nil)
	k.troubleSince = time.Time{}
	k.log.Warn("the kubelet still counts an earlier connection to the socket, registering at another one",
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

// serve opens the socket. Streams that were opened through an earlier one stay open.
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
		// A socket that was replaced is closed on purpose.
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

// warn logs a trouble that lasts once, and not at each retry.
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

// part ends the streams gracefully, so that the kubelet receives what was sent to them.
// A kubelet that does not hang up is given partGrace. It gets as long to clean up: only
// then may the resource come back, see move.
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
