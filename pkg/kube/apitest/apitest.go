// Package apitest starts a real API server for tests, with its etcd. Start also starts the
// controllers of DaemonSets, PodDisruptionBudgets, namespaces and garbage collection. There is no
// scheduler and no node.
package apitest

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"outrigger.dev/pkg/kube"
)

// limit is the time limit for the start, on a busy machine.
const limit = 5 * time.Minute

// poll is the time between two checks whether the server has started.
const poll = 50 * time.Millisecond

// token is the token of a user with all permissions.
const token = "test"

// Start starts an API server that ends with the test, and returns its client configuration. It
// skips the test on a machine where "make cluster" has not built the programs.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	requireProgram(t)
	s := launch("--authorization-mode", "RBAC")
	t.Cleanup(s.stop)
	if s.err == nil {
		_, s.err = fmt.Fprintln(s.life) // the controllers
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.rc
}

// shared is the API server of New, which ends with the process. It is cheaper than the API server
// of Start: it has no controllers, and the token grants all permissions.
var shared = sync.OnceValue(func() *server {
	return launch("--authorization-mode", "AlwaysAllow", "--enable-priority-and-fairness=false")
})

// Kubeconfig writes a kubeconfig for rc, and returns its path.
func Kubeconfig(t testing.TB, rc *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, file, kubeconfig(rc))
	return file
}

func kubeconfig(rc *rest.Config) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: test, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
`, rc.Host, rc.BearerToken)
}

// Script runs a shell script whose kubectl uses the API server, and returns its output. $COMPONENTS
// has the programs and manifests of a cluster. Script skips the test on a machine without one of
// the programs in needs.
func Script(t testing.TB, rc *rest.Config, script string, needs ...string) string {
	t.Helper()
	for _, need := range needs {
		if _, err := exec.LookPath(need); err != nil {
			t.Skipf("this machine has no %s: install the packages of tools/packages-test.txt", need)
		}
	}
	dir := t.TempDir()
	kubectl := filepath.Join(dir, "kubectl")
	components := filepath.Dir(requireProgram(t))
	writeFile(t, kubectl, fmt.Appendf(nil, "#!/bin/sh\nexec %q --kubeconfig %q --cache-dir %q \"$@\"\n", filepath.Join(components, "kubectl"), Kubeconfig(t, rc), filepath.Join(dir, "cache")))
	if err := os.Chmod(kubectl, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "COMPONENTS="+components)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// Account returns a folder with the files that the kubelet mounts for a service account.
func Account(t testing.TB, rc *rest.Config) string {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(rc.Host, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:noctx,gosec // the connection only reads the certificate
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var chain []byte
	for _, cert := range conn.ConnectionState().PeerCertificates {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "ca.crt"), chain)
	writeFile(t, filepath.Join(dir, "token"), []byte(rc.BearerToken))
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

func requireProgram(t testing.TB) string {
	t.Helper()
	file := program()
	if _, err := os.Stat(file); err != nil {
		t.Skipf("this machine has no %s: run make cluster", file)
	}
	return file
}

// program returns the path of the program that contains the parts of Kubernetes.
func program() string {
	bin := os.Getenv("OUTRIGGER_BIN")
	for dir, err := os.Getwd(); bin == "" && err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			bin = filepath.Join(dir, "bin")
		}
	}
	return filepath.Join(bin, "cluster-components", "kubernetes")
}

func writeFile(t testing.TB, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
