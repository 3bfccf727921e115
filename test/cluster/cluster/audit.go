package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"
)

// Request is a request in the API server's audit log.
type Request struct {
	Time time.Time
	Verb string
	// Resource is the plural name of the resource: "pods" or, with a subresource, "pods/status".
	Resource string
	// Name is empty for a list or a watch.
	Name string
	Code int
	// UserAgent is the User-Agent header of the client.
	UserAgent string
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s %s %s: %d (%s)", r.Time.Format("15:04:05.000"), r.Verb, r.Resource, r.Name, r.Code, r.UserAgent)
}

// Writes reports whether the request asked for a change.
func (r Request) Writes() bool {
	return !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
}

// Requests returns the requests of a service account outside of kube-system since a time, in the
// order of the responses.
func (c *Cluster) Requests(namespace, account string, since time.Time) ([]Request, error) {
	b, err := os.ReadFile(c.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	user := "system:serviceaccount:" + namespace + ":" + account
	var found []Request
	seen := map[string]bool{}
	for line := range bytes.Lines(b) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // The API server is still writing this line.
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read audit log %s: %w", c.AuditLog(), err)
		}
		// A watch is recorded when it begins and when it ends.
		if e.User.Username != user || e.RequestReceived.Before(since) || seen[e.AuditID] {
			continue
		}
		seen[e.AuditID] = true
		found = append(found, e.request())
	}
	return found, nil
}

// event is an Event of audit.k8s.io/v1.
type event struct {
	AuditID         string    `json:"auditID"`
	Verb            string    `json:"verb"`
	RequestURI      string    `json:"requestURI"`
	UserAgent       string    `json:"userAgent"`
	RequestReceived time.Time `json:"requestReceivedTimestamp"`
	User            struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func (e event) request() Request {
	r := Request{
		Time: e.RequestReceived, Verb: e.Verb, Resource: e.ObjectRef.Resource, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code, UserAgent: e.UserAgent,
	}
	if e.ObjectRef.Subresource != "" {
		r.Resource += "/" + e.ObjectRef.Subresource
	}
	if r.Resource == "" {
		r.Resource = e.RequestURI // The request has no object: /version.
	}
	return r
}
