// Package apitest starts a real API server for tests, with its etcd and the controllers of
// DaemonSets, PodDisruptionBudgets, namespaces and garbage. There is no scheduler and no node.
package apitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// limit bounds the start.
const limit = time.Minute

// poll is the time between two looks whether it has started.
const poll = 50 * time.Millisecond

// token is that of a user who may do everything.
const token = "test"

// Start returns how to connect to an API server that ends with the test. It skips the test
// on a machine where "make cluster" has not built the programs.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	program := find(t)
	dir := t.TempDir()
	etcd, peers, port := freePort(t), freePort(t), freePort(t)
	etcdURL := "http://127.0.0.1:" + etcd
	start(t, filepath.Join(dir, "etcd.log"), program, "etcd",
		"--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", "http://127.0.0.1:"+peers, "--initial-advertise-peer-urls", "http://127.0.0.1:"+peers,
		"--initial-cluster", "default=http://127.0.0.1:"+peers, "--unsafe-no-fsync", "--log-level", "warn")
	key := filepath.Join(dir, "account.key")
	write(t, key, signingKey(t))
	users := filepath.Join(dir, "users.csv")
	write(t, users, []byte(token+",admin,admin,system:masters\n"))
	start(t, filepath.Join(dir, "apiserver.log"), program, "kube-apiserver",
		"--etcd-servers", etcdURL, "--secure-port", port, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
		"--cert-dir", filepath.Join(dir, "certs"), "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", key,
		"--service-account-signing-key-file", key, "--authorization-mode", "RBAC", "--token-auth-file", users,
		"--disable-admission-plugins", "ServiceAccount", "--allow-privileged=true", "--profiling=false", "--endpoint-reconciler-type", "none")
	rc := &rest.Config{
		Host: "https://127.0.0.1:" + port, BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}
	wait(t, rc, filepath.Join(dir, "apiserver.log"))
	start(t, filepath.Join(dir, "controllers.log"), program, "kube-controller-manager",
		"--kubeconfig", Kubeconfig(t, rc), "--leader-elect=false", "--secure-port=0",
		"--controllers", "garbage-collector-controller,daemonset-controller,disruption-controller,namespace-controller")
	return rc
}

// Kubeconfig writes a kubeconfig for rc, and returns its path.
func Kubeconfig(t testing.TB, rc *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: test, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, rc.Host, rc.BearerToken))
	return file
}

// Script runs the text of a shell script, whose kubectl is that of the API server, and returns what
// it prints. It skips the test on a machine without one of the other programs that it needs.
func Script(t testing.TB, rc *rest.Config, script string, needs ...string) string {
	t.Helper()
	for _, program := range needs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("this machine has no %s: install the packages of tools/packages-test.txt", program)
		}
	}
	dir := t.TempDir()
	kubectl := filepath.Join(dir, "kubectl")
	write(t, kubectl, fmt.Appendf(nil, "#!/bin/sh\nexec %q kubectl --kubeconfig %q \"$@\"\n", find(t), Kubeconfig(t, rc)))
	if err := os.Chmod(kubectl, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// Account returns a folder like the one that the kubelet mounts for a service account.
func Account(t testing.TB, rc *rest.Config) string {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(rc.Host, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:noctx,gosec // it reads the certificate
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var chain []byte
	for _, cert := range conn.ConnectionState().PeerCertificates {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ca.crt"), chain)
	write(t, filepath.Join(dir, "token"), []byte(rc.BearerToken))
	return dir
}

// Client returns a client of package kube for an agent of a node.
func Client(t testing.TB, rc *rest.Config, node, agent string) *kube.Client {
	t.Helper()
	c, err := kube.New(kube.Config{Server: rc.Host, Dir: Account(t, rc), Node: node, Agent: agent, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func find(t testing.TB) string {
	t.Helper()
	bin := os.Getenv("OUTRIGGER_BIN")
	if bin == "" {
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for ; dir != "/"; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
				bin = filepath.Join(dir, "bin")
				break
			}
		}
	}
	program := filepath.Join(bin, "cluster-components", "kubernetes")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("this machine has no %s: run make cluster", program)
	}
	return program
}

// start runs a program until the end of the test.
func start(t testing.TB, logFile, program string, args ...string) {
	t.Helper()
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
}

// wait waits until the API server is ready.
func wait(t testing.TB, rc *rest.Config, logFile string) {
	t.Helper()
	client, err := rest.HTTPClientFor(rc)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(limit); time.Now().Before(deadline) && pace.Pause(t.Context(), poll); {
		resp, err := client.Get(rc.Host + "/readyz") //nolint:noctx // it is bounded by the loop
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			client.CloseIdleConnections()
			return
		}
	}
	text, _ := os.ReadFile(logFile)
	lines := strings.Split(string(text), "\n")
	t.Fatalf("the API server is not ready after %s:\n%s", limit, strings.Join(lines[max(0, len(lines)-20):], "\n"))
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func signingKey(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func write(t testing.TB, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
