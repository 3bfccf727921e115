package apitest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
)

// script runs the programs in its folder until its input ends. The input also ends when the process
// of the tests is killed. A line of input starts the controllers. The arguments are the program,
// the port of the API server, and more flags of the API server.
const script = `
trap 'kill -9 $(jobs -p); wait; rm -rf "$PWD"' EXIT
echo test,admin,admin,system:masters >users.csv
"$0" etcd --data-dir etcd --listen-client-urls unix://client:0 --advertise-client-urls unix://client:0 \
  --listen-peer-urls unix://peer:0 --initial-advertise-peer-urls unix://peer:0 --initial-cluster default=unix://peer:0 \
  --unsafe-no-fsync --log-level warn &
"$0" kube-apiserver --etcd-servers unix://client:0 --secure-port "$1" --permit-port-sharing --bind-address 127.0.0.1 \
  --advertise-address 127.0.0.1 --cert-dir certs --service-cluster-ip-range 10.0.0.0/24 --token-auth-file users.csv \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file certs/apiserver.key \
  --service-account-signing-key-file certs/apiserver.key --disable-admission-plugins ServiceAccount,TaintNodesByCondition \
  --allow-privileged=true --profiling=false --endpoint-reconciler-type none "${@:2}" &
if read -r; then
  "$0" kube-controller-manager --kubeconfig kubeconfig --leader-elect=false --secure-port=0 \
    --controllers garbage-collector-controller,daemonset-controller,disruption-controller,namespace-controller &
  read -r
fi
`

// server is an API server with its etcd.
type server struct {
	rc  *rest.Config
	err error
	// life is the standard input of the script, which ends when it is closed.
	life io.WriteCloser
	cmd  *exec.Cmd
}

// launch starts an API server with additional flags, and waits until it is ready.
func launch(flags ...string) *server {
	s := &server{}
	s.err = s.launch(flags)
	return s
}

func (s *server) launch(flags []string) error {
	// The port is reserved without a listener until the API server listens on it.
	socket, port, err := reservePort()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	s.rc = &rest.Config{
		Host: "https://127.0.0.1:" + port, BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	dir, err := os.MkdirTemp("", "apitest-") // the script removes the folder
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), kubeconfig(s.rc), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s.cmd = exec.Command("bash", append([]string{"-c", script, program(), port}, flags...)...) //nolint:gosec,noctx // the server ends before its test
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, log, log
	// The start allocates much: with fewer collections, it takes a sixth less of the processor.
	s.cmd.Env = append(os.Environ(), "GOGC=400")
	if s.life, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w:\n%s", err, text[max(0, len(text)-4096):])
	}
	return nil
}

// stop ends the programs.
func (s *server) stop() {
	if s.life != nil {
		_ = s.life.Close()
		_ = s.cmd.Wait()
	}
}

// ready waits until the API server is ready, and has the namespace default.
func (s *server) ready() error {
	client := connect(s.rc)
	defer client.CloseIdleConnections()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); <-tick.C {
		if isOK(client, s.rc.Host+"/readyz") && isOK(client, s.rc.Host+"/api/v1/namespaces/default") {
			return nil
		}
	}
	return errors.New("the API server is not ready after " + limit.String())
}

func isOK(client *http.Client, url string) bool {
	resp, err := client.Get(url) //nolint:noctx // the loop limits the time
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// connection adds a token to requests without one. It uses HTTP/1.1, because its connections are
// idle as soon as an answer was read.
type connection struct {
	*http.Transport
	token string
}

func connect(rc *rest.Config) *http.Client {
	return &http.Client{Transport: connection{
		&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, rc.BearerToken, //nolint:gosec // as rc
	}}
}

// RoundTrip sends a request.
func (c connection) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return c.Transport.RoundTrip(r)
}

// reservePort returns a free port of 127.0.0.1. While the returned socket is open, another socket
// of this user can listen on the port.
func reservePort() (socket int, port string, err error) {
	socket, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, "", err
	}
	if err := errors.Join(
		unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	); err != nil {
		return 0, "", err
	}
	at, err := unix.Getsockname(socket)
	if err != nil {
		return 0, "", err
	}
	return socket, strconv.Itoa(at.(*unix.SockaddrInet4).Port), nil //nolint:forcetypeassert // Bind got an address of this type
}
