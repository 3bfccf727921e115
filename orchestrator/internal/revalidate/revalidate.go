// Package revalidate repeats the validations of a cluster on request, on chosen nodes and with more tests, and follows
// them. The orchestrator runs them, so that their results are in the status of the ClusterPolicy, as those of any other
// run.
package revalidate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/observe"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/orchestrator/internal/validation"
)

// Request says where and with which tests to repeat the validations.
type Request struct {
	// Nodes are the names of the nodes. If it is empty, All chooses all nodes with a GPU, and otherwise the values of the
	// chart validator choose.
	Nodes []string
	All   bool
	// AllGPUs and Copies are model.WithAllGPUs and model.WithCopies.
	AllGPUs, Copies bool
}

// Run is a repetition of the validations.
type Run struct {
	client *cluster.Client
	policy string
	// before has the revision of the last result of each validation, by name.
	before map[string]string
}

// Start checks the request, and asks the orchestrator for the repetition.
func Start(ctx context.Context, client *cluster.Client, req Request) (*Run, error) {
	policy, err := inEffect(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := checkNodes(ctx, client, req.Nodes); err != nil {
		return nil, err
	}
	r := &Run{client: client, policy: policy.Name, before: map[string]string{}}
	for _, s := range policy.Status.Stages {
		for _, v := range s.Validations {
			r.before[v.Name] = v.Revision
		}
	}
	if len(r.before) == 0 {
		return nil, fmt.Errorf("the ClusterPolicy %s has no validations: set validator.enabled=true in its values", policy.Name)
	}
	return r, r.annotate(ctx, map[string]any{
		observe.Validate: time.Now().UTC().Format(time.RFC3339Nano), observe.ValidateOn: req.on(), observe.ValidateWith: req.with(),
	})
}

// on and with return the values of the annotations. nil removes an annotation.
func (q Request) on() any {
	switch {
	case len(q.Nodes) > 0:
		return strings.Join(q.Nodes, ",")
	case q.All:
		return model.OnAll
	}
	return nil
}

func (q Request) with() any {
	var tests []string
	if q.AllGPUs {
		tests = append(tests, model.WithAllGPUs)
	}
	if q.Copies {
		tests = append(tests, model.WithCopies)
	}
	if len(tests) == 0 {
		return nil
	}
	return strings.Join(tests, ",")
}

// End removes the request. The results stay.
func (r *Run) End(ctx context.Context) error {
	return r.annotate(ctx, map[string]any{observe.ValidateOn: nil, observe.ValidateWith: nil})
}

func (r *Run) annotate(ctx context.Context, annotations map[string]any) error {
	_, err := r.client.Patch(ctx, cluster.PolicyRef(r.policy), "", map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return cluster.Explain(r.client.REST, fmt.Errorf("annotate the ClusterPolicy %s: %w", r.policy, err))
	}
	return nil
}

// Look returns the results so far, and whether all validations have ended.
func (r *Run) Look(ctx context.Context) (result Result, ended bool, err error) {
	policy, err := inEffect(ctx, r.client)
	if err != nil {
		return Result{}, false, err
	}
	if policy.Name != r.policy {
		return Result{}, false, fmt.Errorf("the ClusterPolicy %s is not in effect any more: repeat the validations of %s", r.policy, policy.Name)
	}
	var pods corev1.PodList
	err = r.client.Core.Get().Resource("pods").VersionedParams(&metav1.ListOptions{LabelSelector: validation.LabelCheck}, scheme.ParameterCodec).Do(ctx).Into(&pods)
	if err != nil {
		return Result{}, false, cluster.Explain(r.client.REST, fmt.Errorf("list the pods of validations: %w", err))
	}
	// Everybody can give a pod the labels of a validation.
	namespaces := policy.Status.Namespaces()
	pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return len(namespaces) > 0 && !namespaces[p.Namespace] })
	result, ended = derive(policy, pods.Items, r.before)
	return result, ended, nil
}

// AddLogs adds the lines at the end of each pod's log about GPUs and copies. A log that cannot be read is skipped: it may be gone, and
// the result does not depend on it.
func (r *Run) AddLogs(ctx context.Context, result *Result) {
	for i := range result.Validations {
		pods := result.Validations[i].Pods
		for j := range pods {
			log, err := read.Log(ctx, r.client, read.LogName{Namespace: pods[j].Namespace, Pod: pods[j].Name})
			if err == nil {
				pods[j].GPUs, pods[j].Copies = readLog(log)
			}
		}
	}
}

// inEffect returns the policy that the orchestrator follows.
func inEffect(ctx context.Context, client *cluster.Client) (model.Policy, error) {
	policies, err := observe.ListPolicies(ctx, client)
	if err != nil {
		return model.Policy{}, cluster.Explain(client.REST, err)
	}
	if len(policies) == 0 {
		return model.Policy{}, errors.New("the cluster has no ClusterPolicy of Outrigger, so no orchestrator runs validations: install the chart outrigger with orchestrator.enabled=true")
	}
	return policies[0], policies[0].Unreadable
}

// checkNodes reports all nodes that cannot run a validation.
func checkNodes(ctx context.Context, client *cluster.Client, names []string) error {
	var errs []error
	for _, name := range names {
		var node corev1.Node
		err := client.Core.Get().Resource("nodes").Name(name).Do(ctx).Into(&node)
		switch {
		case apierrors.IsNotFound(err):
			err = fmt.Errorf("the cluster has no node %s: kubectl get nodes lists them", name)
		case err != nil:
			err = cluster.Explain(client.REST, fmt.Errorf("read node %s: %w", name, err))
		case !observe.NodeOf(&node).HasGPU():
			err = fmt.Errorf("node %s has no label of an NVIDIA GPU: kubectl outrigger doctor %s says why", name, name)
		case !observe.NodeOf(&node).Schedulable:
			err = fmt.Errorf("node %s is cordoned or not Ready, so no pod starts there: kubectl uncordon %s", name, name)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
