package charts_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workload is what the test reads of a DaemonSet or Deployment, and of a NetworkPolicy.
type workload struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		PodSelector struct{ MatchLabels map[string]string }
		Template    struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []listener
				Volumes    []struct {
					Name   string
					Secret struct{ SecretName string }
				}
			}
		}
	}
}

// listener is a container that serves HTTP.
type listener struct {
	Name      string
	Env       []struct{ Name, Value string }
	Ports     []struct{ ContainerPort int }
	Resources struct{ Limits struct{ Memory string } }

	LivenessProbe, ReadinessProbe struct {
		HTTPGet struct {
			Path string
			Port int
		}
		Exec struct{ Command []string }
	}
}

func (c listener) env(name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// workloads returns the objects of a chart that have pods, and its NetworkPolicies. What the device
// plugin shares by MPS gives it a second DaemonSet.
func workloads(t *testing.T, chart, text string) (pods, policies []workload) {
	t.Helper()
	values := set(t, text)
	if chart == "device-plugin" {
		values["config"] = valuesOf(t, "testdata/device-plugin/mps.values.yaml")["config"]
	}
	out, err := release{chart: chart, values: values}.render()
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(out, "\n---\n") {
		var w workload
		if err := yaml.Unmarshal([]byte(document), &w); err != nil {
			t.Fatal(err)
		}
		switch w.Kind {
		case "DaemonSet", "Deployment":
			pods = append(pods, w)
		case "NetworkPolicy":
			policies = append(policies, w)
		}
	}
	if len(pods) == 0 {
		t.Fatalf("%s has no pods", chart)
	}
	return pods, policies
}

// unlimited are the containers without a limit of memory. The README of their chart says why.
var unlimited = []string{"driver-loader", "mps-control-daemon"}

// TestEachAgentHasTheProtectionsOfItsPort is for agents to come, too: what listens can have TLS, a
// NetworkPolicy and localhost only, with probes that work, and its memory is limited.
func TestEachAgentHasTheProtectionsOfItsPort(t *testing.T) {
	files, err := filepath.Glob("*/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		chart := filepath.Dir(file)
		if chart == "outrigger" || chart == "validator" { // they have no agent of their own
			continue
		}
		t.Run(chart, func(t *testing.T) {
			pods, policies := workloads(t, chart, "networkPolicy.enabled=true,metrics.tls.secretName=cert")
			for _, w := range pods {
				if !slices.ContainsFunc(policies, func(p workload) bool { return selects(p, w) }) {
					t.Errorf("no NetworkPolicy selects the pods of %s", w.Metadata.Name)
				}
				if !slices.ContainsFunc(w.Spec.Template.Spec.Containers, func(c listener) bool { return len(c.Ports) > 0 }) {
					t.Errorf("%s has no port", w.Metadata.Name)
				}
				for _, c := range w.Spec.Template.Spec.Containers {
					protected(t, w, c)
				}
			}
			pods, _ = workloads(t, chart, "metrics.localhost=true")
			for _, w := range pods {
				for _, c := range w.Spec.Template.Spec.Containers {
					onLocalhost(t, c)
				}
			}
		})
	}
}

func selects(policy, pods workload) bool {
	for key, value := range policy.Spec.PodSelector.MatchLabels {
		if pods.Spec.Template.Metadata.Labels[key] != value {
			return false
		}
	}
	return len(policy.Spec.PodSelector.MatchLabels) > 0
}

// protected checks a container that serves HTTPS.
func protected(t *testing.T, w workload, c listener) {
	t.Helper()
	if c.Resources.Limits.Memory == "" && !slices.Contains(unlimited, c.Name) {
		t.Errorf("%s has no limit of memory", c.Name)
	}
	if c.env("TLS_CERT_FILE") == "" || c.env("TLS_PRIVATE_KEY_FILE") == "" {
		t.Errorf("%s has no certificate", c.Name)
	}
	for _, v := range w.Spec.Template.Spec.Volumes {
		if v.Name == "tls" && v.Secret.SecretName != "cert" {
			t.Errorf("%s has the certificate %q", c.Name, v.Secret.SecretName)
		}
	}
	_, probes, _ := strings.Cut(c.env("PROBE_ADDRESS"), ":")
	if get := c.ReadinessProbe.HTTPGet; get.Path != "/readyz" || strconv.Itoa(get.Port) != probes || strings.HasSuffix(c.env("LISTEN_ADDRESS"), ":"+probes) {
		t.Errorf("%s has the readiness probe %+v, and answers probes on port %q", c.Name, get, probes)
	}
	if get := c.LivenessProbe.HTTPGet; get.Path != "" && strconv.Itoa(get.Port) != probes {
		t.Errorf("%s has the liveness probe %+v, and answers probes on port %q", c.Name, get, probes)
	}
}

// onLocalhost checks a container whose port only its pod reaches.
func onLocalhost(t *testing.T, c listener) {
	t.Helper()
	if !strings.HasPrefix(c.env("LISTEN_ADDRESS"), "127.0.0.1:") || len(c.Ports) > 0 {
		t.Errorf("%s listens on %q, with the ports %v", c.Name, c.env("LISTEN_ADDRESS"), c.Ports)
	}
	if !strings.HasPrefix(c.env("PROBE_ADDRESS"), "127.0.0.1:") {
		t.Errorf("%s answers probes on %q", c.Name, c.env("PROBE_ADDRESS"))
	}
	if c.ReadinessProbe.HTTPGet.Path+c.LivenessProbe.HTTPGet.Path != "" {
		t.Errorf("%s has a probe that the kubelet sends to a port that it does not reach", c.Name)
	}
	if command := strings.Join(c.ReadinessProbe.Exec.Command, " "); !strings.HasSuffix(command, " probe readyz") {
		t.Errorf("%s has the readiness probe %q", c.Name, command)
	}
}
