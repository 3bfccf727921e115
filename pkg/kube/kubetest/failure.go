package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// failure is a Status with which the server answers instead of an object.
type failure struct {
	code    int
	message string
	// kind and name are those of the object that the failure is about.
	kind, name string
	// after is the time after which the client may try again; 0 to say none.
	after time.Duration
}

// write sends the failure as a Status object.
func (f *failure) write(w http.ResponseWriter) {
	if f.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.after.Seconds())))
	}
	w.WriteHeader(f.code)
	_ = json.NewEncoder(w).Encode(f.status()) //nolint:errchkjson // a client that is gone
}

func (f *failure) status() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Status", "metadata": map[string]any{}, "status": "Failure",
		"message": f.message, "code": f.code,
		"details": map[string]any{"name": f.name, "kind": f.kind, "retryAfterSeconds": int(f.after.Seconds())},
	}
}

func notFound(resource, name string) *failure {
	return &failure{code: http.StatusNotFound, message: fmt.Sprintf("%s %q not found", resource, name), kind: resource, name: name}
}

func badRequest(format string, args ...any) *failure {
	return &failure{code: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

func forbidden(verb, resource string) string {
	return fmt.Sprintf(`%s is forbidden: User "system:serviceaccount:gpu:agent" cannot %s resource %q in API group "" at the cluster scope`,
		resource, verb, resource)
}

// Error returns the message: a write of an object can return a failure.
func (f *failure) Error() string { return f.message }
