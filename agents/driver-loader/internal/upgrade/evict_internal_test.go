package upgrade

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/kube/eviction"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/pace"
)

// TestPodsLeaveANode clears nodes of a real API server.
func TestPodsLeaveANode(t *testing.T) {
	rc := apitest.Start(t)
	for name, test := range map[string]func(*rig){
		"gpu-pods":    (*rig).testsOnlyPodsThatHoldGPUsAreEvicted,
		"budget":      (*rig).testsABudgetHoldsTheEviction,
		"recreated":   (*rig).testsAPodThatComesBackElsewhereStays,
		"refused":     (*rig).testsWhatMayNotBeEvictedKeepsAll,
		"daemon-sets": (*rig).testsPodsOfDaemonSetsAndStaticPods,
		"await":       (*rig).testsAwait,
		"large":       (*rig).testsANodeOfLargePods,
		"cancelled":   (*rig).testsTheEndOfTheAgentEndsTheWait,
	} {
		t.Run(name, func(t *testing.T) { test(newRig(t, rc, name)) })
	}
}

// rig is a node of a cluster, and a namespace of the same name. It has no kubelet, so that its pods
// have no grace period.
type rig struct {
	*testing.T
	client kubernetes.Interface
	*Upgrade
	name string
	set  *appsv1.ReplicaSet

	mu    sync.Mutex
	lines []said
	// saw gets each line at once, if it is not nil.
	saw func(said)
}

// said is a line of the log about a pod.
type said struct {
	pod string
	podRecord
}

func newRig(t *testing.T, rc *clientrest.Config, name string) *rig {
	r := &rig{T: t, name: name}
	c := apitest.Client(t, rc, name, "driver-loader")
	r.Upgrade = &Upgrade{blocked: map[string]string{}, cfg: Config{
		Client: c, Events: kube.NewEvents(c), Log: slog.New(r), Slice: time.Minute, Evict: 100 * time.Millisecond,
	}}
	unlimited := clientrest.CopyConfig(rc)
	unlimited.QPS = -1
	var err error
	if r.client, err = kubernetes.NewForConfig(unlimited); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "set"}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: container("")},
	}}
	if r.set, err = r.client.AppsV1().ReplicaSets(name).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// Enabled, Handle, WithAttrs and WithGroup make rig the log of the upgrade.
func (r *rig) Enabled(context.Context, slog.Level) bool { return true }

func (r *rig) Handle(_ context.Context, record slog.Record) error {
	var s said
	record.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "event":
			s.event, _ = a.Value.Any().(event)
		case "pod":
			s.pod = strings.TrimPrefix(a.Value.String(), r.name+"/")
		case "budget":
			s.budget = a.Value.String()
		case "text":
			s.text = a.Value.String()
		}
		return true
	})
	r.mu.Lock()
	r.lines = append(r.lines, s)
	saw := r.saw
	r.mu.Unlock()
	if saw != nil {
		saw(s)
	}
	return nil
}

func (r *rig) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *rig) WithGroup(string) slog.Handler      { return r }

// take takes the pods of an action away, within seconds.
func (r *rig) take(ctx context.Context, kind Kind, selector string, options eviction.Options, seconds int, saw func(said)) error {
	r.mu.Lock()
	r.lines, r.saw = nil, saw
	r.mu.Unlock()
	c := clearing{Upgrade: r.Upgrade, kind: kind, selector: selector, options: options, pods: map[string]podRecord{}}
	return c.run(ctx, time.Duration(seconds)*time.Second)
}

// of returns the line about a pod with an event.
func (r *rig) of(event event, pod string) *said {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.lines {
		if s.event == event && s.pod == pod {
			return &s
		}
	}
	return nil
}

// container returns the spec of a pod that requests one of a resource, or nothing.
func container(of corev1.ResourceName) corev1.PodSpec {
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64),
		Containers:                    []corev1.Container{{Name: "main", Image: "image"}},
	}
	if of != "" {
		list := corev1.ResourceList{of: resource.MustParse("1")}
		spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
	}
	return spec
}

// pod creates a pod of the ReplicaSet that runs and is ready, after a change.
func (r *rig) pod(name string, of corev1.ResourceName, change func(*corev1.Pod)) {
	r.Helper()
	isController := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: r.set.Name, UID: r.set.UID, Controller: &isController},
	}}, Spec: container(of)}
	p.Spec.NodeName = r.name
	if change != nil {
		change(p)
	}
	status := p.Status
	made, err := r.client.CoreV1().Pods(r.name).Create(r.Context(), p, metav1.CreateOptions{})
	assert.NilError(r, err)
	made.Status = status
	made.Status.Phase = corev1.PodRunning
	made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := r.client.CoreV1().Pods(r.name).UpdateStatus(r.Context(), made, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// budget creates a PodDisruptionBudget that allows no eviction of a pod, and waits until its
// controller has seen it.
func (r *rig) budget(name, pod string) {
	r.Helper()
	one := intstr.FromInt32(1)
	budgets := r.client.PolicyV1().PodDisruptionBudgets(r.name)
	_, err := budgets.Create(r.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": pod}},
	}}, metav1.CreateOptions{})
	for err == nil {
		var b *policyv1.PodDisruptionBudget
		b, err = budgets.Get(r.Context(), name, metav1.GetOptions{})
		if err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy == 1 {
			return
		}
		pace.Pause(r.Context(), 50*time.Millisecond)
	}
	r.Fatal(err)
}

func (r *rig) withoutBudget(name string) {
	assert.NilError(r, r.client.PolicyV1().PodDisruptionBudgets(r.name).Delete(r.Context(), name, metav1.DeleteOptions{}))
}

// left returns the names of the pods that are there.
func (r *rig) left() string {
	r.Helper()
	pods, err := r.client.CoreV1().Pods(r.name).List(r.Context(), metav1.ListOptions{})
	assert.NilError(r, err)
	var names []string
	for _, p := range pods.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// claim creates a claim of which a driver has allocated a device.
func (r *rig) claim(name, driver string) {
	r.Helper()
	claims := r.client.ResourceV1().ResourceClaims(r.name)
	c, err := claims.Create(r.Context(), &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimSpec{
		Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "class"}}}},
	}}, metav1.CreateOptions{})
	assert.NilError(r, err)
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "one", Driver: driver, Pool: r.name, Device: "device0"},
	}}}
	if _, err := claims.UpdateStatus(r.Context(), c, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

func claims(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
	}
}

func (r *rig) testsOnlyPodsThatHoldGPUsAreEvicted() {
	r.claim("of-a-gpu", "gpu.nvidia.com")
	r.claim("of-a-nic", "nic.example.com")
	template := "of-a-gpu"
	r.pod("gpu", "nvidia.com/gpu", nil)
	r.pod("shared", "nvidia.com/gpu.shared", nil)
	r.pod("mig", "nvidia.com/mig-1g.5gb", nil)
	r.pod("init", "", func(p *corev1.Pod) {
		p.Spec.InitContainers = container("nvidia.com/gpu").Containers
		p.Spec.InitContainers[0].Name = "first"
	})
	r.pod("dra", "", claims("of-a-gpu"))
	r.pod("dra-template", "", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimTemplateName: &template}}
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "device", ResourceClaimName: &template}}
	})
	r.pod("stays-nic", "", claims("of-a-nic"))
	r.pod("stays-no-claim", "", claims("absent"))
	r.pod("stays-cpu", "cpu", nil)
	r.pod("stays-elsewhere", "nvidia.com/gpu", func(p *corev1.Pod) { p.Spec.NodeName = "node2" })
	r.pod("stays-skip", "nvidia.com/gpu", func(p *corev1.Pod) { p.Labels[PodSkipLabel] = "true" })
	assert.NilError(r, r.take(r.Context(), EvictPods, "", eviction.Options{}, 60, nil))
	if got, want := r.left(), "stays-cpu stays-elsewhere stays-nic stays-no-claim stays-skip"; got != want {
		r.Errorf("these pods are left: %s, want %s", got, want)
	}
	for _, name := range []string{"gpu", "shared", "mig", "init", "dra", "dra-template"} {
		if r.of(evicting, name) == nil || r.of(gone, name) == nil {
			r.Errorf("pod %s is not in the log: %+v", name, r.lines)
		}
	}
	if l := r.of(left, "stays-skip"); l == nil || !strings.Contains(l.text, "drain.skip=true") {
		r.Errorf("the pod that is left is not in the log: %+v", r.lines)
	}
}

func (r *rig) testsABudgetHoldsTheEviction() {
	r.pod("held", "nvidia.com/gpu", nil)
	r.budget("keep", "held")
	err := r.take(r.Context(), EvictPods, "", eviction.Options{}, 1, nil)
	l := r.of(blocked, "held")
	if !errors.Is(err, errTime) || r.left() != "held" || l == nil || l.budget != "keep" || !strings.Contains(l.text, "needs 1 healthy pods and has 1 currently") {
		r.Fatalf("%v, left %q, lines %+v", err, r.left(), r.lines)
	}
	// The eviction goes on when the budget allows it.
	allow := sync.OnceFunc(func() { r.withoutBudget("keep") })
	err = r.take(r.Context(), EvictPods, "", eviction.Options{}, 60, func(s said) {
		if s.event == blocked {
			allow()
		}
	})
	if err != nil || r.left() != "" || r.of(gone, "held") == nil {
		r.Errorf("%v, left %q, lines %+v", err, r.left(), r.lines)
	}
}

// A pod of a StatefulSet has the name of the one before it, and may be on another node.
func (r *rig) testsAPodThatComesBackElsewhereStays() {
	r.pod("held", "nvidia.com/gpu", nil)
	var read eviction.Pod
	assert.NilError(r, r.cfg.Client.Get(r.Context(), kube.Object{API: "v1", Resource: "pods", Namespace: r.name, Name: "held"}, &read))
	now := int64(0)
	assert.NilError(r, r.client.CoreV1().Pods(r.name).Delete(r.Context(), "held", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	assert.NilError(r, eviction.Evict(r.Context(), r.cfg.Client, &read), "the eviction of a pod that is gone")
	r.pod("held", "nvidia.com/gpu", func(p *corev1.Pod) { p.Spec.NodeName = "node2" })
	assert.NilError(r, eviction.Evict(r.Context(), r.cfg.Client, &read), "the eviction of a pod that is another one now")
	if err := r.take(r.Context(), EvictPods, "", eviction.Options{}, 60, nil); err != nil || r.left() != "held" {
		r.Errorf("%v, left %q, lines %+v", err, r.left(), r.lines)
	}
}

func (r *rig) testsWhatMayNotBeEvictedKeepsAll() {
	r.pod("fine", "nvidia.com/gpu", nil)
	r.pod("bare", "nvidia.com/gpu", func(p *corev1.Pod) { p.OwnerReferences = nil })
	r.pod("data", "nvidia.com/gpu", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	if err := r.take(r.Context(), EvictPods, "", eviction.Options{}, 60, nil); !errors.Is(err, errRefused) || r.left() != "bare data fine" {
		r.Errorf("%v, left %q", err, r.left())
	}
	for pod, want := range map[string]string{
		"bare": "it has no controller that would create it again: set force in upgradePolicy to evict it anyway",
		"data": "its emptyDir volumes would be lost: set deleteEmptyDir in upgradePolicy to evict it anyway",
	} {
		if l := r.of(refused, pod); l == nil || l.text != want {
			r.Errorf("the log says of %s: %+v, want %q", pod, l, want)
		}
	}
	if err := r.take(r.Context(), EvictPods, "", eviction.Options{Force: true, DeleteEmptyDir: true}, 60, nil); err != nil || r.left() != "" {
		r.Errorf("%v, left %q", err, r.left())
	}
}

func (r *rig) testsPodsOfDaemonSetsAndStaticPods() {
	isController := true
	set, err := r.client.AppsV1().DaemonSets(r.name).Create(r.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "daemon"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "daemon"}},
		// Its controller leaves the pod alone, which is not of this template.
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
		Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"name": "daemon"}}, Spec: container("")},
	}}, metav1.CreateOptions{})
	assert.NilError(r, err)
	r.pod("daemon", "nvidia.com/gpu", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "daemon", UID: set.UID, Controller: &isController}}
	})
	r.pod("static", "nvidia.com/gpu", func(p *corev1.Pod) {
		p.Annotations, p.OwnerReferences = map[string]string{corev1.MirrorPodAnnotationKey: "x"}, nil
	})
	r.pod("other", "", nil)
	if err := r.take(r.Context(), EvictPods, "", eviction.Options{}, 60, nil); !errors.Is(err, errRefused) || r.of(refused, "daemon") == nil || r.of(refused, "static") == nil {
		r.Errorf("%v, lines %+v", err, r.lines)
	}
	err = r.take(r.Context(), DrainNode, "name!=kept", eviction.Options{}, 60, nil)
	if err != nil || r.left() != "daemon static" || r.of(left, "daemon") == nil || r.of(left, "static") == nil {
		r.Errorf("%v, left %q, lines %+v", err, r.left(), r.lines)
	}
}

func (r *rig) testsAwait() {
	r.pod("job", "", nil)
	r.pod("other", "", nil)
	if err := r.take(r.Context(), WaitForJobs, "name=job", eviction.Options{}, 1, nil); !errors.Is(err, errTime) || r.of(running, "job") == nil || len(r.lines) != 1 {
		r.Errorf("%v, lines %+v", err, r.lines)
	}
	ends := sync.OnceFunc(func() {
		pods := r.client.CoreV1().Pods(r.name)
		pod, err := pods.Get(r.Context(), "job", metav1.GetOptions{})
		if err == nil {
			pod.Status.Phase = corev1.PodSucceeded
			_, err = pods.UpdateStatus(r.Context(), pod, metav1.UpdateOptions{})
		}
		if err != nil {
			r.Error(err)
		}
	})
	if err := r.take(r.Context(), WaitForJobs, "name=job", eviction.Options{}, 60, func(said) { ends() }); err != nil || r.left() != "job other" {
		r.Errorf("%v, left %q", err, r.left())
	}
}

// Together, these pods have more than one answer of the API server may have.
func (r *rig) testsANodeOfLargePods() {
	const count = 60
	for i := range count {
		r.pod(fmt.Sprint("large-", i), "", func(p *corev1.Pod) { p.Annotations = map[string]string{"x": strings.Repeat("x", 100<<10)} })
	}
	pods, err := eviction.Pods(r.Context(), r.cfg.Client, "")
	if err != nil || len(pods) != count {
		r.Errorf("%d pods are listed, want %d: %v", len(pods), count, err)
	}
}

func (r *rig) testsTheEndOfTheAgentEndsTheWait() {
	r.pod("held", "nvidia.com/gpu", nil)
	r.budget("keep", "held")
	ctx, cancel := context.WithCancel(r.Context())
	if err := r.take(ctx, EvictPods, "", eviction.Options{}, 60, func(said) { cancel() }); !errors.Is(err, context.Canceled) || r.left() != "held" {
		r.Errorf("%v, left %q", err, r.left())
	}
}

// TestOutcomes derives the cause of each end.
func TestOutcomes(t *testing.T) {
	client, err := kube.New(kube.Config{Node: "node1", Agent: "x", Kubeconfig: apitest.Kubeconfig(t, &clientrest.Config{Host: "https://192.0.2.1"})})
	assert.NilError(t, err)
	pods := map[string]podRecord{"a/job": {event: running}, "a/held": {event: blocked, budget: "keep", text: "needs 1"}, "a/bare": {event: refused, text: "why"}, "a/ended": {event: gone}}
	for name, tc := range map[string]struct {
		kind Kind
		err  error
		over bool
		code cause.Code
		text string
	}{
		"all are gone":                   {EvictPods, nil, true, "", ""},
		"one may not be evicted":         {EvictPods, errRefused, true, cause.PodsRefused, "they use GPUs, and the upgrade policy does not allow their eviction: a/bare (why)"},
		"the node is looked at again":    {EvictPods, errTime, false, cause.WaitingForPods, "they have not ended: a/held (PodDisruptionBudget keep: needs 1), a/job"},
		"the time of the policy is over": {DrainNode, errTime, true, cause.PodsLeft, "they have not ended: a/held (PodDisruptionBudget keep: needs 1), a/job; the time limit of upgradePolicy has passed"},
		"jobs have had their time":       {WaitForJobs, errTime, true, "", ""},
		"jobs go on":                     {WaitForJobs, errTime, false, cause.WaitingForPods, "they have not ended: a/held (PodDisruptionBudget keep: needs 1), a/job"},
		"the API server is away":         {EvictPods, errors.New("connection\nrefused"), false, cause.TemporaryFailure, "connection; refused"},
		"and the time is over":           {EvictPods, errors.New("away"), true, cause.PodsLeft, "away; the time limit of upgradePolicy has passed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clearing{Upgrade: &Upgrade{cfg: Config{Client: client}}, kind: tc.kind, pods: pods}
			got := c.outcome(tc.err, tc.over)
			if tc.code == "" {
				if got != nil {
					t.Errorf("the cause is %v, want none", got)
				}
				return
			}
			if got == nil || got.Code != tc.code || got.Text != tc.text || got.Subject != "pods of node node1" || got.Fix == "" {
				t.Errorf("the cause is %+v, want %s: %s", got, tc.code, tc.text)
			}
		})
	}
}

func TestAnErrorWithoutACodeIsACause(t *testing.T) {
	if c := causeOf("upgrade", errors.New("no answer")); c.Code != cause.UpgradeFailed || c.Text != "no answer" {
		t.Errorf("%+v", c)
	}
	if c := causeOf("upgrade", fmt.Errorf("load: %w", cause.New(cause.ModuleInUse, "a", "b"))); c.Code != cause.ModuleInUse {
		t.Errorf("%+v", c)
	}
}

// A node that failed, and whose agent starts again while it waits, has still failed.
func TestAFailureOutlastsARestart(t *testing.T) {
	now := time.Now()
	waits := Journal{State: Required, Target: "2", Failed: "2"}
	j := move(waits, Observation{Loaded: "1"}, Idle, nil, now)
	path := filepath.Join(t.TempDir(), "journal")
	assert.NilError(t, j.Write(path))
	read, err := ReadJournal(path)
	if err != nil || read.Failed != "2" || publishedFields(read, "a/b").Annotations[FailedAnnotation] != "2" {
		t.Errorf("%+v, %v", read, err)
	}
	if j := move(waits, Observation{Loaded: "2"}, Idle, nil, now); j.Failed != "" {
		t.Errorf("driver 2 works, and the journal says that it failed: %+v", j)
	}
}

// A label that somebody sets on a node at rest may have caused a grant. The node corrects it.
func TestANodeAtRestCorrectsALabelThatGotAGrant(t *testing.T) {
	api := apitest.New(t, map[string]string{StateLabel: string(Required)})
	client := apitest.Client(t, api.Config, api.Name, "driver-loader")
	u := &Upgrade{cfg: Config{Client: client, DaemonSet: "a/b"}, journal: Journal{State: Done, Target: "2"}}
	u.node = nodestate.New(client, nodestate.Config{Log: slog.New(slog.DiscardHandler)})
	n, err := u.node.Read(t.Context())
	assert.NilError(t, err)
	d := publishedFields(u.journal, u.cfg.DaemonSet)
	u.shown = &d
	if wrote, _, err := u.publish(t.Context(), n); err != nil || wrote {
		t.Errorf("without a grant: %v, %v", wrote, err)
	}
	n.Annotations = map[string]string{GrantAnnotation: "2"}
	if wrote, _, err := u.publish(t.Context(), n); err != nil || !wrote || api.Node().Labels[StateLabel] != string(Done) {
		t.Errorf("with a grant: %v, %v, %v", wrote, err, api.Node().Labels)
	}
}

// The condition for optional modules is on the Node while it is known to be wanted, and stays while it is not known.
func TestTheConditionFollowsTheOptionalModules(t *testing.T) {
	api := apitest.New(t, nil)
	client := apitest.Client(t, api.Config, api.Name, "driver-loader")
	failed := &nodestate.Condition{Type: OptionalCondition, Status: "False", Reason: "RDMAUnavailable", Message: "no headers"}
	loaded := &nodestate.Condition{Type: OptionalCondition, Status: "True", Reason: "Loaded", Message: "nvidia_peermem"}
	var wanted *nodestate.Condition
	known := true
	u := &Upgrade{cfg: Config{Client: client, DaemonSet: "a/b", Optional: func() (*nodestate.Condition, bool) { return wanted, known }}}
	u.node = nodestate.New(client, nodestate.Config{Log: slog.New(slog.DiscardHandler)})
	for i, step := range []struct {
		wanted *nodestate.Condition
		known  bool
		want   string
	}{
		{nil, true, ""},
		{failed, true, "False RDMAUnavailable no headers"},
		{nil, false, "False RDMAUnavailable no headers"},
		{loaded, true, "True Loaded nvidia_peermem"},
		{nil, true, ""},
		{nil, true, ""},
	} {
		wanted, known = step.wanted, step.known
		n, err := u.node.Read(t.Context())
		assert.NilError(t, err)
		_, _, err = u.publish(t.Context(), n)
		assert.NilError(t, err)
		n, err = u.node.Read(t.Context())
		assert.NilError(t, err)
		got := ""
		for _, c := range n.Conditions {
			if c.Type == OptionalCondition {
				got = fmt.Sprint(c.Status, " ", c.Reason, " ", c.Message)
			}
		}
		if got != step.want {
			t.Errorf("step %d: the condition is %q, want %q", i+1, got, step.want)
		}
	}
}
