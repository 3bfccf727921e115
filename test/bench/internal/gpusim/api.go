package gpusim

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
)

// nodeName is the name of the Node.
const nodeName = "bench"

// api is a fake API server with a Node that never changes, and without pods. A real API server would take processor
// time from the agent.
type api struct{ *httptest.Server }

func startAPI() *api {
	a := &api{httptest.NewUnstartedServer(http.HandlerFunc(answer))}
	a.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	a.EnableHTTP2 = true
	a.StartTLS()
	return a
}

// kubeconfig returns a kubeconfig for the server.
func (a *api) kubeconfig() []byte {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: bench, user: {token: token}}]
contexts: [{name: bench, context: {cluster: bench, user: bench}}]
current-context: bench
`, a.URL, base64.StdEncoding.EncodeToString(authority))
}

// answer answers lists of Nodes and pods, watches in which nothing happens, and writes.
func answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var items string
	if r.URL.Path == "/api/v1/nodes" {
		items = fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"1","labels":{"outrigger.dev/simulated-gpus":%q}}}`, nodeName, label)
	}
	switch {
	case r.Method != http.MethodGet:
		_, _ = io.Copy(w, r.Body) // as a server answers what it has stored
	case r.URL.Query().Has("watch"):
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		_, _ = fmt.Fprintf(w, `{"metadata":{"resourceVersion":"1"},"items":[%s]}`, items)
	}
}
