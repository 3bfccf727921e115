package migrate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// maxRelease is the largest size of a record of a Helm release, unpacked.
const maxRelease = 16 << 20

// helmValues returns the values that a user gave to the Helm release of an object, and the name of the release. Both are
// empty if Helm has not installed the object.
func helmValues(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) (values map[string]any, name string, err error) {
	release, namespace := o.GetAnnotations()["meta.helm.sh/release-name"], o.GetAnnotations()["meta.helm.sh/release-namespace"]
	if release == "" || namespace == "" {
		return nil, "", nil
	}
	name = namespace + "/" + release
	secrets, err := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).
		List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,status=deployed,name=" + release})
	if err != nil {
		return nil, name, fmt.Errorf("read the Helm release %s: %w", name, err)
	}
	if len(secrets.Items) == 0 {
		return nil, name, fmt.Errorf("read the Helm release %s: it has no Secret with the label status=deployed", name)
	}
	secret, err := typed[corev1.Secret](&secrets.Items[0])
	if err != nil {
		return nil, name, err
	}
	if values, err = config(secret.Data["release"]); err != nil {
		return nil, name, fmt.Errorf("read the Helm release %s: %w", name, err)
	}
	return values, name, nil
}

// config returns the values in the record of a Helm release: JSON, packed with gzip, in base64.
func config(record []byte) (map[string]any, error) {
	packed, err := base64.StdEncoding.DecodeString(string(record))
	if err != nil {
		return nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(unpacked, maxRelease))
	if err != nil {
		return nil, err
	}
	var release struct {
		Config map[string]any `json:"config"`
	}
	err = json.Unmarshal(text, &release)
	return release.Config, err
}

// mergeInto merges values into a copy of others. Values take precedence.
func mergeInto(others, values map[string]any) map[string]any {
	merged := maps.Clone(others)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range values {
		below, is := value.(map[string]any)
		above, also := merged[key].(map[string]any)
		if is && also {
			merged[key] = mergeInto(above, below)
		} else {
			merged[key] = value
		}
	}
	return merged
}
