package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"outrigger.dev/pkg/pace"
)

// Restricted returns the client configuration of an agent on a node, with the rights that admission
// policies leave to it. The Node must exist.
type Restricted func(t testing.TB, node string) *rest.Config

// Restrict creates the admission policies of a file, such as a golden file of a chart, for the
// account that they restrict: "namespace/name".
func Restrict(t testing.TB, rc *rest.Config, file, account string) Restricted {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var policies []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains(document, "\nkind: ValidatingAdmissionPolicy") {
			policies = append(policies, document)
		}
	}
	list := filepath.Join(t.TempDir(), "policies.yaml")
	writeFile(t, list, []byte(strings.Join(policies, "\n---\n")))
	namespace, name, _ := strings.Cut(account, "/")
	Script(t, rc, fmt.Sprintf(`
		namespace=%q name=%q
		kubectl create namespace "$namespace"
		kubectl create serviceaccount "$name" --namespace "$namespace"
		kubectl create clusterrolebinding "$name" --clusterrole cluster-admin --serviceaccount "$namespace:$name"
		kubectl apply -f %q`, namespace, name, list))
	return func(t testing.TB, node string) *rest.Config {
		t.Helper()
		restricted := *rc
		restricted.BearerToken = boundToken(t, rc, namespace, name, node)
		waitEnforced(t, &restricted, node)
		return &restricted
	}
}

// boundToken returns a token of an account that is bound to a node, like the token of a pod on that
// node.
func boundToken(t testing.TB, rc *rest.Config, namespace, name, node string) string {
	t.Helper()
	var of struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	var issued struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	client := connect(rc)
	defer client.CloseIdleConnections()
	_, got := send(t, client, http.MethodGet, rc.Host+"/api/v1/nodes/"+node, nil)
	decode(t, got, &of)
	_, got = send(t, client, http.MethodPost, rc.Host+"/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token", map[string]any{
		"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": map[string]any{
			"boundObjectRef": map[string]any{"kind": "Node", "apiVersion": "v1", "name": node, "uid": of.Metadata.UID},
		},
	})
	decode(t, got, &issued)
	if issued.Status.Token == "" {
		t.Fatalf("no token of %s/%s for node %s", namespace, name, node)
	}
	return issued.Status.Token
}

// waitEnforced waits until the API server enforces the policies, which takes some time after their
// creation. They must forbid the account to annotate its Node.
func waitEnforced(t testing.TB, rc *rest.Config, node string) {
	t.Helper()
	var said []byte
	client := connect(rc)
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline) && pace.Pause(t.Context(), poll); {
		_, said = send(t, client, http.MethodPatch, rc.Host+"/api/v1/nodes/"+node+"?dryRun=All",
			map[string]any{"metadata": map[string]any{"annotations": map[string]any{"forged": "yes"}}})
		if strings.Contains(string(said), "ValidatingAdmissionPolicy") {
			return
		}
	}
	t.Fatalf("no policy is enforced: %s", said)
}

// send sends a request, even in a cleanup, and returns any answer.
func send(t testing.TB, client *http.Client, method, url string, body any) (code int, text []byte) {
	t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, url, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, text
}

func decode(t testing.TB, text []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
}
