package lease

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
)

// maxRenewal is the time since the last renewal of a Lease after which its holder does not work any more. A waiting
// orchestrator would have taken the Lease earlier.
const maxRenewal = time.Minute

// StatusAge returns a warning if no orchestrator keeps the status of the policy up to date, or "".
func StatusAge(ctx context.Context, client *cluster.Client) (string, error) {
	o, err := client.Get(ctx, model.Ref{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: Namespace, Name: Name})
	if apierrors.IsForbidden(err) {
		return "", nil // A person who may read the policy need not have the right to read the Lease.
	}
	if err != nil {
		return "", err
	}
	return ageOf(o, time.Now()), nil
}

// ageOf returns the warning for the Lease o, or "". o is nil if the cluster does not have the Lease.
func ageOf(o *unstructured.Unstructured, now time.Time) string {
	const none = "No orchestrator works in this cluster%s, so this status can be out of date: check its pod with kubectl get pods -A -l app.kubernetes.io/name=orchestrator\n\n"
	if o == nil {
		return fmt.Sprintf(none, "")
	}
	holder, _, _ := unstructured.NestedString(o.Object, "spec", "holderIdentity")
	text, _, _ := unstructured.NestedString(o.Object, "spec", "renewTime")
	renewed, err := time.Parse(time.RFC3339, text)
	switch age := now.Sub(renewed); {
	case err != nil:
		return fmt.Sprintf(none, "")
	case holder == "" || age > maxRenewal:
		return fmt.Sprintf(none, fmt.Sprintf(" since %s (%s)", renewed.UTC().Format("2006-01-02 15:04:05Z"), age.Round(time.Second)))
	}
	return ""
}
