package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
)

// Release is a chart of the repository, installed under its own name.
type Release struct {
	Chart string
	// File is a file of values, empty for none.
	File string
	// Values are values in the form of Helm's --set. They take precedence over File.
	Values []string
	// NoWait makes Install return without waiting until the pods are ready.
	NoWait bool
}

// Install installs or upgrades a chart as Helm does: it applies the objects on the server, with
// Helm's field manager, and deletes the objects that an upgrade drops.
func (s *Stack) Install(ctx context.Context, r Release) error {
	objects, err := s.render(ctx, r)
	if err != nil {
		return err
	}
	dropped := slices.DeleteFunc(s.installed[r.Chart], func(old manifest) bool {
		return slices.ContainsFunc(objects, func(m manifest) bool { return m.ref == old.ref })
	})
	s.installed[r.Chart] = objects
	all := append([]manifest{{text: namespaceManifest}}, objects...)
	if err := s.feed(ctx, all, "apply", "--server-side", "--field-manager=helm"); err != nil {
		return fmt.Errorf("install %s: %w", r.Chart, err)
	}
	if err := s.remove(ctx, dropped); err != nil {
		return fmt.Errorf("upgrade %s: %w", r.Chart, err)
	}
	if r.NoWait {
		return nil
	}
	return s.waitRollout(ctx, r.Chart, objects)
}

// Uninstall removes a chart, and waits until all of its pods are gone.
func (s *Stack) Uninstall(ctx context.Context, chart string) error {
	if err := s.remove(ctx, s.installed[chart]); err != nil {
		return fmt.Errorf("uninstall %s: %w", chart, err)
	}
	delete(s.installed, chart)
	_, err := s.Kubectl(ctx, "-n", Namespace, "wait", "pod", "--selector=app.kubernetes.io/instance="+chart, "--for=delete", "--timeout=60s")
	return err
}

const namespaceManifest = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + Namespace + "\n"

// manifest is an object that a chart renders.
type manifest struct {
	ref
	text string
}

// ref names an object.
type ref struct {
	APIVersion string
	Kind       string
	Metadata   struct{ Name, Namespace string }
}

// render returns the objects of a release for the version of this cluster.
func (s *Stack) render(ctx context.Context, r Release) ([]manifest, error) {
	chart, err := charts.Load(r.Chart)
	if err != nil {
		return nil, err
	}
	values, err := readValues(r.File)
	if err != nil {
		return nil, err
	}
	for _, v := range r.Values {
		if err := strvals.ParseInto(v, values); err != nil {
			return nil, fmt.Errorf("parse value %q: %w", v, err)
		}
	}
	answer, err := s.Kubectl(ctx, "get", "--raw", "/version")
	if err != nil {
		return nil, err
	}
	var version struct{ GitVersion string }
	if err := json.Unmarshal([]byte(answer), &version); err != nil {
		return nil, fmt.Errorf("read the cluster's version: %w", err)
	}
	rendered, err := charts.Render(chart, charts.Release{Name: r.Chart, Namespace: Namespace, Kubernetes: version.GitVersion, Values: chartstest.WithRegistry(values)})
	if err != nil {
		return nil, err
	}
	return split(rendered)
}

// readValues returns the values in a file. It returns no values if file is empty.
func readValues(file string) (map[string]any, error) {
	values := map[string]any{}
	if file == "" {
		return values, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("read values %s: %w", file, err)
	}
	return values, nil
}

// split splits rendered manifests into objects.
func split(rendered string) ([]manifest, error) {
	var found []manifest
	for text := range strings.SplitSeq(strings.TrimPrefix(rendered, "---\n"), "\n---\n") {
		m := manifest{text: text}
		if err := yaml.Unmarshal([]byte(text), &m.ref); err != nil {
			return nil, fmt.Errorf("read rendered object: %w", err)
		}
		found = append(found, m)
	}
	return found, nil
}

// remove deletes objects in reverse order, so that pods end before the RBAC objects that they use
// are deleted.
func (s *Stack) remove(ctx context.Context, objects []manifest) error {
	if len(objects) == 0 {
		return nil
	}
	reversed := slices.Clone(objects)
	slices.Reverse(reversed)
	return s.feed(ctx, reversed, "delete", "--ignore-not-found", "--wait", "--timeout=4m")
}

// feed runs kubectl with the manifests of objects as its input.
func (s *Stack) feed(ctx context.Context, objects []manifest, args ...string) error {
	var input strings.Builder
	for _, m := range objects {
		input.WriteString("---\n" + m.text + "\n")
	}
	cmd := s.KubectlCommand(ctx, append(args, "-f", "-")...)
	cmd.Stdin = strings.NewReader(input.String())
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return nil
}

// waitRollout waits until every DaemonSet of a release has ready pods of its newest template on all
// its nodes. The error has the description and the logs of the pods.
func (s *Stack) waitRollout(ctx context.Context, chart string, objects []manifest) error {
	for _, m := range objects {
		if m.Kind != "DaemonSet" {
			continue
		}
		_, err := s.Kubectl(ctx, "-n", m.Metadata.Namespace, "rollout", "status", "daemonset/"+m.Metadata.Name, "--timeout=4m")
		if err != nil {
			pods, _ := s.Kubectl(ctx, "-n", Namespace, "describe", "pods")
			logs, _ := s.Kubectl(ctx, "-n", Namespace, "logs", "--selector=app.kubernetes.io/instance="+chart, "--tail=30")
			return fmt.Errorf("install %s: %w\n%s\n%s", chart, err, pods, logs)
		}
	}
	return nil
}
