package kubetest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
)

// patch changes an object by a request. A request for a subresource changes only
// that part of the object, and another request only the other parts.
func (o *object) patch(r *http.Request) *failure {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return badRequest("read the patch: %s", err)
	}
	query := r.URL.Query()
	by := writer{manager: query.Get("fieldManager"), operation: "Update"}
	parts := []string{"status"}
	if strings.HasSuffix(r.URL.Path, "/status") {
		by.subresource, parts = "status", []string{"spec"}
	}
	switch r.Header.Get("Content-Type") {
	case "application/apply-patch+yaml":
		by.operation = "Apply"
		return o.apply(by, body, parts, query.Get("force") == "true")
	case "application/json-patch+json":
		if query.Has("force") {
			return &failure{code: http.StatusUnprocessableEntity, message: "force: Forbidden: may not be specified for non-apply patch"}
		}
		return o.jsonPatch(by, body, parts)
	default:
		return &failure{code: http.StatusUnsupportedMediaType, message: "the body of the request was in an unknown format"}
	}
}

func (o *object) apply(by writer, body []byte, ignored []string, force bool) *failure {
	var config map[string]any
	if err := json.Unmarshal(body, &config); err != nil {
		return badRequest("error decoding patch: %s", err)
	}
	metadata, _ := config["metadata"].(map[string]any)
	is, _ := o.doc["metadata"].(map[string]any)
	switch {
	case by.manager == "":
		return badRequest("fieldManager: Required value: is required for apply patch")
	case config["apiVersion"] != o.doc["apiVersion"] || config["kind"] != o.doc["kind"]:
		return badRequest("the patch is of %v %v, not of %v %v", config["apiVersion"], config["kind"], o.doc["apiVersion"], o.doc["kind"])
	case metadata["name"] != is["name"]:
		return badRequest("the patch names %v, the path %v", metadata["name"], is["name"])
	}
	for _, part := range ignored {
		delete(config, part)
	}
	return o.store(by, config, force)
}

func (o *object) jsonPatch(by writer, body []byte, ignored []string) *failure {
	patch, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return badRequest("%s", err)
	}
	doc, err := json.Marshal(o.doc)
	if err != nil {
		panic(err) // it came from JSON
	}
	if doc, err = patch.Apply(doc); err != nil {
		// The API server gives no details of a patch that fails.
		return &failure{code: http.StatusUnprocessableEntity, message: "the server rejected our request due to an error in our request"}
	}
	var next map[string]any
	if err := json.Unmarshal(doc, &next); err != nil {
		return badRequest("%s", err)
	}
	for _, part := range ignored {
		next[part] = o.doc[part]
	}
	if spec, is := next["spec"].(map[string]any); is {
		if taints, is := spec["taints"].([]any); is && len(taints) == 0 {
			delete(spec, "taints") // as the types of the API are encoded
		}
	}
	return o.store(by, next, true)
}

func (o *object) store(by writer, config map[string]any, force bool) *failure {
	err := o.write(by, config, force)
	var failed *failure
	var conflicts merge.Conflicts
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return failed
	case errors.As(err, &conflicts):
		return &failure{code: http.StatusConflict, message: "Apply failed with " + err.Error()}
	default:
		return badRequest("%s", err)
	}
}
