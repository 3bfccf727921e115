package mps

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/sim/internal/background"
)

// daemon is a control daemon. Like NVIDIA's, it has at most one server, which serves the processes of
// one user at a time.
type daemon struct {
	logs     logs
	listener net.Listener

	mu sync.Mutex
	// changed has a broadcast when a client or the server has ended.
	changed *sync.Cond
	// defaults are the settings of the next server.
	defaults settings
	// server is nil until a client or a command asks for it.
	server  *server
	clients map[net.Conn]client
	// quitting is set when no more clients are accepted.
	quitting bool
}

// client is a CUDA process. The kernel says who it is.
type client struct {
	pid int
	uid int
}

var errRunning = errors.New("An instance of this daemon is already running") //nolint:staticcheck // NVIDIA's text

// runDaemon serves commands and clients until the command quit.
func (d dirs) runDaemon() (err error) {
	if err := hostfs.CheckSocketPath(d.socket()); err != nil {
		return err
	}
	if err := os.MkdirAll(d.pipe, 0o755); err != nil { //nolint:gosec // clients of all users look for the socket
		return fmt.Errorf("make the pipe folder, which CUDA_MPS_PIPE_DIRECTORY names: %w", err)
	}
	pid, err := os.OpenFile(d.pidFile(), os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // as NVIDIA's
	if err != nil {
		return fmt.Errorf("open the PID file: %w", err)
	}
	defer func() { err = errors.Join(err, pid.Close()) }()
	// The lock ends with the process, so a file that a killed daemon has left does not matter.
	if err := hostfs.LockWrite(pid); errors.Is(err, hostfs.ErrLocked) {
		return errRunning
	} else if err != nil {
		return err
	}
	x, err := d.listen()
	if err != nil {
		return err
	}
	if err := errors.Join(pid.Truncate(0), writeAt(pid, background.PIDText(os.Getpid()))); err != nil {
		return fmt.Errorf("write the PID file: %w", err)
	}
	x.logs.controlf("Starting control daemon using socket %s", d.socket())
	x.logs.controlf("To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=%s", d.pipe)
	return errors.Join(x.run(), os.Remove(d.pidFile()))
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// listen opens the log and the socket of a daemon.
func (d dirs) listen() (*daemon, error) {
	x := &daemon{clients: map[net.Conn]client{}, defaults: settings{threads: 100, memory: map[string]uint64{}}}
	x.changed = sync.NewCond(&x.mu)
	var err error
	if x.logs, err = openLogs(d.log); err != nil {
		return nil, err
	}
	if err := os.Remove(d.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier daemon: %w", err)
	}
	if x.listener, err = net.Listen("unix", d.socket()); err != nil { //nolint:noctx // it returns at once
		return nil, fmt.Errorf("open the socket: %w", err)
	}
	// Clients of all users connect.
	if err := os.Chmod(d.socket(), 0o666); err != nil { //nolint:gosec // see above
		return nil, fmt.Errorf("open the socket to all users: %w", err)
	}
	return x, nil
}

// run serves connections until quit closes the listener.
func (d *daemon) run() error {
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := d.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a connection: %w", err)
		}
		d.logs.controlf("Accepting connection...")
		serving.Go(func() {
			d.serve(conn)
			_ = conn.Close() // the other end may have closed it
		})
	}
}

// lineLimit is how long the other end of a connection may take to send its line.
const lineLimit = 5 * time.Second

// serve reads a line, and answers it.
func (d *daemon) serve(conn net.Conn) {
	err := conn.SetReadDeadline(time.Now().Add(lineLimit))
	line, errRead := bufio.NewReader(conn).ReadString('\n')
	if errors.Join(err, errRead, conn.SetReadDeadline(time.Time{})) != nil {
		return
	}
	line = strings.TrimSpace(line)
	if line == "client" {
		d.serveClient(conn)
		return
	}
	d.logs.controlf("NEW UI")
	d.logs.controlf("Cmd:%s", line)
	answer, err := d.command(strings.Fields(line))
	if err != nil {
		_, _ = fmt.Fprintf(conn, "%s%s\n", rejected, err) // the program may have ended
	} else {
		_, _ = io.WriteString(conn, accepted+answer)
	}
	d.logs.controlf("UI closed")
}

// notReady is CUDA_ERROR_MPS_SERVER_NOT_READY.
const notReady = 807

// serveClient gives a client its server, and returns when the client or the server has ended.
func (d *daemon) serveClient(conn net.Conn) {
	c, err := peer(conn)
	if err != nil {
		d.logs.controlf("User did not send valid credentials")
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.serverFor(c.uid); err != nil {
		d.logs.controlf("Rejecting client %d from user %d: %v", c.pid, c.uid, err)
		_, _ = fmt.Fprintf(conn, "%s%d %s\n", rejected, notReady, err) // the client may have ended
		return
	}
	d.clients[conn] = c
	d.logs.serverf(d.server.pid, "Client {PID: %d} connected", c.pid)
	_, _ = fmt.Fprintf(conn, "%s%s\n", accepted, strings.Join(d.server.shares(), " ")) // the client may have ended
	d.mu.Unlock()
	_, _ = io.Copy(io.Discard, conn) // any result means that the connection has ended
	d.mu.Lock()
	delete(d.clients, conn)
	d.changed.Broadcast()
}

// serverFor starts a server for the processes of a user, unless it runs. It waits until the clients
// of another user have ended. The caller holds d.mu.
func (d *daemon) serverFor(uid int) error {
	for d.server != nil && d.server.uid != uid && !d.quitting {
		if len(d.clients) == 0 {
			d.endServer()
		} else {
			d.logs.controlf("NEW CLIENT from user %d: Server is not ready, push client to pending list", uid)
			d.changed.Wait()
		}
	}
	if d.quitting {
		return errors.New("the MPS control daemon is shutting down")
	}
	if d.server != nil {
		return nil
	}
	s, err := startServer(uid, settings{d.defaults.threads, maps.Clone(d.defaults.memory)})
	if err != nil {
		d.logs.controlf("Server for user %d did not start: %v", uid, err)
		return err
	}
	d.logs.controlf("Starting new server %d for user %d", s.pid, uid)
	s.log(d.logs)
	d.server = s
	go d.reap(s)
	return nil
}

// reap waits until a server has ended. Its clients end with it.
func (d *daemon) reap(s *server) {
	err := s.cmd.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logs.controlf("Server %d exited: %v", s.pid, s.cmd.ProcessState)
	if err != nil {
		d.logs.serverf(s.pid, "Server has ended: %v", err)
	}
	d.endClients()
	d.server = nil
	d.changed.Broadcast()
}

// endServer ends the server. The caller holds d.mu.
func (d *daemon) endServer() {
	s := d.server
	if s == nil {
		return
	}
	_ = s.stdin.Close() // the server has ended if this fails
	for d.server == s {
		d.changed.Wait()
	}
}

// endClients ends the connections of all clients. The caller holds d.mu.
func (d *daemon) endClients() {
	for conn := range d.clients {
		_ = conn.Close() // the client may have ended
	}
	clear(d.clients)
	d.changed.Broadcast()
}

// peer returns the process at the other end of a connection.
func peer(conn net.Conn) (client, error) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return client{}, err
	}
	var cred *unix.Ucred
	var result error
	err = raw.Control(func(fd uintptr) { cred, result = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, result); err != nil {
		return client{}, err
	}
	return client{int(cred.Pid), int(cred.Uid)}, nil
}
