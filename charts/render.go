package charts

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
)

// Release describes the installation of a chart.
type Release struct {
	Name      string
	Namespace string
	// Kubernetes is the version of the cluster, such as v1.36.3.
	Kubernetes string
	// Values override the chart's values.
	Values map[string]any
	// Nodes has the kinds of nodes, for images whose tags depend on the node. If it is nil, the charts reject
	// values with such images.
	Nodes []Node
	// service is the name of the program that installs the chart. If it is empty, it is Helm.
	service string
	// checked is set if the values have been validated against the schemas.
	checked bool
}

// Node is a kind of node: its kernel and its distribution, as the labels of feature discovery name them. A missing label
// is empty.
type Node struct {
	// Kernel is the release of the kernel, such as 6.8.0-60-generic.
	Kernel string
	// ID, Version and Major are the name of the distribution and its version, such as rhel, 9.4 and 9.
	ID      string
	Version string
	Major   string
}

// installOrder returns Helm's order of kinds, with admission policies before the service accounts
// that they restrict. Helm does not know these kinds, and creates them last. In a release that Helm
// installs, one List has the policies before the role bindings.
func installOrder() releaseutil.KindSortOrder {
	order := slices.Clone(releaseutil.InstallOrder)
	return slices.Insert(order, slices.Index(order, "ServiceAccount"), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
}

// separator matches the line between two objects.
var separator = regexp.MustCompile(`(?m)^---\s*$`)

// listHeader matches the start of a List of the template outrigger.inOrder, up to its first item.
var listHeader = regexp.MustCompile(`(?m)^apiVersion: v1\nkind: List\n(?:.+\n)*items:\n`)

// unlisted replaces the Lists in rendered text by their items. The Lists are for Helm's order.
// Render uses installOrder.
func unlisted(text string) string {
	documents := separator.Split(text, -1)
	for i, document := range documents {
		documents[i] = unlistDocument(document)
	}
	return strings.Join(documents, "\n---\n")
}

// unlistDocument returns the items of a List as separate objects. It does not change other objects.
func unlistDocument(document string) string {
	at := listHeader.FindStringIndex(document)
	if at == nil {
		return document
	}
	var out strings.Builder
	out.WriteString(document[:at[0]])
	for line := range strings.Lines(document[at[1]:]) {
		if item, ok := strings.CutPrefix(line, "  - "); ok {
			out.WriteString("---\n" + item)
			continue
		}
		out.WriteString(strings.TrimPrefix(line, "    "))
	}
	return out.String()
}

// Render returns the objects of a release in the order of installation, without the tests of the
// chart.
func Render(c *chart.Chart, r Release) (string, error) {
	files, err := execute(c, r)
	if err != nil {
		return "", fmt.Errorf("render chart %s: %w", c.Name(), err)
	}
	manifests, err := objects(files)
	if err != nil {
		return "", fmt.Errorf("render chart %s: %w", c.Name(), err)
	}
	var out strings.Builder
	for _, crd := range c.CRDObjects() {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", crd.Filename, crd.File.Data)
	}
	return strings.TrimSpace(out.String()+manifests) + "\n", nil
}

// objects returns the objects in rendered templates, in the order of installation, without notes
// and tests.
func objects(files map[string]string) (string, error) {
	maps.DeleteFunc(files, func(name, _ string) bool { return path.Base(name) == "NOTES.txt" })
	for name, text := range files {
		files[name] = unlisted(text)
	}
	_, manifests, err := releaseutil.SortManifests(files, nil, installOrder())
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, m := range manifests {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", m.Name, strings.TrimSpace(m.Content))
	}
	return out.String(), nil
}

// execute renders each template of a chart with the values of a release. If the templates do not accept the values, the
// error is of the type Problems.
func execute(c *chart.Chart, r Release) (map[string]string, error) {
	values, err := renderValues(c, r)
	if err != nil {
		return nil, err
	}
	release := values["Release"].(map[string]any)
	release["collect"] = true
	files, err := engine.Render(c, values)
	if found := recorded(release); len(found) > 0 {
		return nil, found
	}
	return files, err
}

// renderValues returns the values of templates. It validates the values of the release against the schemas, unless they
// have been checked.
func renderValues(c *chart.Chart, r Release) (common.Values, error) {
	kubernetes, err := common.ParseKubeVersion(r.Kubernetes)
	if err != nil {
		return nil, fmt.Errorf("parse Kubernetes version %q: %w", r.Kubernetes, err)
	}
	if needs := c.Metadata.KubeVersion; needs != "" && !chartutil.IsCompatibleRange(needs, kubernetes.String()) {
		return nil, fmt.Errorf("it needs Kubernetes %s, and the cluster has %s", needs, r.Kubernetes)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *kubernetes
	if err := chartutil.ProcessDependencies(c, r.Values); err != nil {
		return nil, err
	}
	values, err := util.ToRenderValuesWithSchemaValidation(c, r.Values, common.ReleaseOptions{
		Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true,
	}, capabilities, r.checked)
	if err != nil {
		return nil, err
	}
	release := values["Release"].(map[string]any)
	if r.service != "" {
		release["Service"] = r.service
	}
	if r.Nodes != nil {
		nodes := []any{}
		for _, n := range r.Nodes {
			nodes = append(nodes, map[string]any{"kernel": n.Kernel, "id": n.ID, "version": n.Version, "major": n.Major})
		}
		release["Nodes"] = nodes
	}
	return values, nil
}
