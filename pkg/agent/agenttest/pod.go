package agenttest

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/kube"
)

// givenDir is the variable with the folder of the files that a pod needs to reach the API server.
const givenDir = "AGENTTEST_POD"

// Pod returns a main for Main. In a process of InPod, it puts the token and the certificate of the
// pod where the kubelet puts them, and then runs main.
func Pod(main func()) func() {
	return func() {
		if dir := os.Getenv(givenDir); dir != "" {
			if err := mountPod(dir); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1) //nolint:forbidigo // this function replaces main
			}
		}
		main()
	}
}

// mountPod mounts over /run in the mount namespace of the simulated node. The machine does not see
// the mount.
func mountPod(dir string) error {
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount a folder for the token: %w", err)
	}
	return os.CopyFS(kube.ServiceAccountDir, os.DirFS(dir))
}

// Account returns a folder with the account of a pod: a token and the certificate of the API
// server. The folder is removed after the test.
func Account(t testing.TB, api *httptest.Server) string {
	t.Helper()
	dir := t.TempDir()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	for name, data := range map[string][]byte{"token": []byte("token"), "ca.crt": authority} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// InPod makes cmd, a result of Command on a simulated node, run as in a pod. The parameter api is
// the URL of the API server. dir has the token and the certificate.
func InPod(t testing.TB, cmd *exec.Cmd, api, dir string) {
	t.Helper()
	at, err := url.Parse(api)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, givenDir+"="+dir, "KUBERNETES_SERVICE_HOST="+at.Hostname(), "KUBERNETES_SERVICE_PORT="+at.Port())
}
