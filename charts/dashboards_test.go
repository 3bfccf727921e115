package charts_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	dashboardsSource   = "testdata/dcgm-exporter/dashboards.yaml"
	dashboardsTemplate = "dcgm-exporter/templates/_dashboards.tpl"
)

// dashboard is an entry of dashboards.yaml.
type dashboard struct {
	Name      string
	Title     string
	Variables []struct {
		Name, Label, Query string
		// All lets the user choose all values.
		All bool
	}
	Rows []struct {
		Title  string
		Panels []panel
	}
}

// panel is a part of a dashboard. It has either Expr and Legend, or Queries.
type panel struct {
	Title string
	// Kind is stat, table or, if it is empty, timeseries.
	Kind string
	// Unit is one of Grafana.
	Unit         string
	Expr, Legend string
	Queries      []query
	// Max is the greatest value that there can be.
	Max float64
	// Bad is the least value that is shown in red.
	Bad float64
	// Events shows bars, of what happens now and then.
	Events bool
	// States are texts in place of values: 1 is green, all others are red.
	States map[string]string
	// Column is the name of the values in a table with one query, which are hidden without it; those
	// of several queries have the legends. The first values sort the table.
	Column string
	// Width is a part of 24; 0 is that of the kind, as with Height.
	Width, Height int
}

type query struct{ Expr, Legend string }

func (p panel) queries() []query {
	if p.Expr != "" {
		return []query{{p.Expr, p.Legend}}
	}
	return p.Queries
}

func dashboards(t *testing.T) []dashboard {
	t.Helper()
	text, err := os.ReadFile(dashboardsSource)
	if err != nil {
		t.Fatal(err)
	}
	var all []dashboard
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatalf("%s: %v", dashboardsSource, err)
	}
	return all
}

// TestDashboardsAreThoseOfTheirSource compares the template with the dashboards with what
// dashboards.yaml says. -update writes it.
func TestDashboardsAreThoseOfTheirSource(t *testing.T) {
	var out strings.Builder
	var names []string
	out.WriteString("{{- /* Written by: go test ./... -update, from testdata/dcgm-exporter/dashboards.yaml. */ -}}\n")
	for _, d := range dashboards(t) {
		names = append(names, d.Name)
		text := strings.ReplaceAll(d.grafana(t), "{{", `{{ "{{" }}`)
		fmt.Fprintf(&out, "{{- define \"dcgm-exporter.dashboard.%s\" -}}\n%s{{- end -}}\n\n", d.Name, text)
	}
	fmt.Fprintf(&out, "{{- define \"dcgm-exporter.dashboardNames\" -}}\n[%s]\n{{- end -}}\n", strings.Join(names, ", "))
	compareGolden(t, dashboardsTemplate, out.String())
}

// grafana is a part of Grafana's JSON.
type grafana = map[string]any

// source is the data source that the user chooses.
func source() grafana { return grafana{"type": "prometheus", "uid": "${datasource}"} }

// grafana returns the dashboard in the form that Grafana imports, with one line for each panel.
func (d dashboard) grafana(t *testing.T) string {
	t.Helper()
	variables := []any{grafana{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}
	for _, v := range d.Variables {
		variables = append(variables, grafana{
			"name": v.Name, "label": v.Label, "type": "query", "datasource": source(), "refresh": 2, "sort": 1,
			"query": grafana{"query": v.Query, "refId": v.Name}, "includeAll": v.All, "multi": v.All,
		})
	}
	head := encode(t, grafana{
		"uid": "outrigger-gpus-" + d.Name, "title": d.Title, "tags": []string{"gpu", "outrigger"}, "schemaVersion": 39,
		"refresh": "30s", "time": grafana{"from": "now-3h", "to": "now"}, "templating": grafana{"list": variables},
	})
	var panels []string
	y := 0
	for _, row := range d.Rows {
		panels = append(panels, encode(t, grafana{
			"type": "row", "title": row.Title, "id": len(panels) + 1, "collapsed": false, "panels": []any{},
			"gridPos": grafana{"x": 0, "y": y, "w": 24, "h": 1},
		}))
		y++
		x, height := 0, 0
		for _, p := range row.Panels {
			one, w, h := p.grafana()
			if x+w > 24 {
				x, y, height = 0, y+height, 0
			}
			one["id"], one["gridPos"] = len(panels)+1, grafana{"x": x, "y": y, "w": w, "h": h}
			panels = append(panels, encode(t, one))
			x, height = x+w, max(height, h)
		}
		y += height
	}
	return fmt.Sprintf("%s,\n\"panels\": [\n%s\n]}\n", strings.TrimSuffix(head, "}"), strings.Join(panels, ",\n"))
}

// grafana returns the panel, its width and its height.
func (p panel) grafana() (one grafana, width, height int) {
	kind, width, height := p.Kind, 12, 8
	options := grafana{}
	defaults := grafana{"unit": p.Unit, "min": 0}
	switch kind {
	case "":
		kind = "timeseries"
		defaults["custom"] = grafana{"fillOpacity": 10, "showPoints": "never"}
		if p.Events {
			defaults["custom"], defaults["decimals"] = grafana{"drawStyle": "bars", "fillOpacity": 100}, 0
		}
		options = grafana{"tooltip": grafana{"mode": "multi", "sort": "desc"}, "legend": grafana{"displayMode": "list", "placement": "bottom"}}
	case "table":
		height = 6
	case "stat":
		options = grafana{"reduceOptions": grafana{"calcs": []string{"lastNotNull"}}, "colorMode": "value", "graphMode": "none", "textMode": "auto"}
		width, height = 4, 4
	}
	width, height = cmp.Or(p.Width, width), cmp.Or(p.Height, height)
	if p.Max > 0 {
		defaults["max"] = p.Max
	}
	steps := []grafana{{"color": "text", "value": nil}}
	if p.Bad > 0 {
		steps = []grafana{{"color": "green", "value": nil}, {"color": "red", "value": p.Bad}}
	}
	defaults["thresholds"] = grafana{"mode": "absolute", "steps": steps}
	if p.States != nil {
		texts := grafana{}
		for value, text := range p.States {
			texts[value] = grafana{"text": text, "color": map[bool]string{true: "green", false: "red"}[value == "1"]}
		}
		defaults["mappings"] = []grafana{{"type": "value", "options": texts}}
	}
	var targets []grafana
	for i, q := range p.queries() {
		target := grafana{"refId": string(rune('A' + i)), "datasource": source(), "expr": q.Expr, "legendFormat": q.Legend}
		if kind == "table" {
			target["format"], target["instant"] = "table", true
		}
		targets = append(targets, target)
	}
	one = grafana{
		"type": kind, "title": p.Title, "datasource": source(), "targets": targets, "options": options,
		"fieldConfig": grafana{"defaults": defaults, "overrides": []any{}},
	}
	if kind == "table" {
		names := p.columns()
		hidden := grafana{"Time": true, "Value": p.Column == ""}
		one["transformations"] = []grafana{{"id": "merge"}, {"id": "organize", "options": grafana{"excludeByName": hidden, "renameByName": names}}}
		if first := cmp.Or(names["Value"], names["Value #A"]); first != "" {
			options["sortBy"] = []grafana{{"displayName": first, "desc": true}}
		}
	}
	return one, width, height
}

// columns returns the names of the columns of a table, by the names that Grafana gives them.
func (p panel) columns() map[string]string {
	names := map[string]string{
		"Hostname": "Node", "gpu": "GPU", "modelName": "Model", "xid": "XID", "class": "Class", "field": "Field", "reason": "Reason",
		"exported_namespace": "Namespace", "exported_pod": "Pod", "agent": "Program", "version": "Version", "type": "Modules", "code": "Code",
		"part": "Part", "instance": "Instance", "resource": "Resource", "index": "Index", "stage": "Stage", "state": "State", "cause": "Cause",
		"validation": "Validation",
	}
	if p.Column != "" {
		names["Value"] = p.Column
	}
	for i, q := range p.Queries {
		names["Value #"+string(rune('A'+i))] = q.Legend
	}
	return names
}

func encode(t *testing.T, value any) string {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

// TestDashboards parses what the chart renders: JSON that has every panel, whose expressions
// Prometheus understands.
func TestDashboards(t *testing.T) {
	for name, values := range map[string]string{
		"with the labels of most clusters": "dashboards.enabled=true",
		"with other labels":                "dashboards.enabled=true,hostnameLabel=hostname,serviceMonitor.enabled=true,serviceMonitor.honorLabels=true",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := release{chart: "dcgm-exporter", values: set(t, values)}.render()
			if err != nil {
				t.Fatal(err)
			}
			expressions := expressionsOf(t, out)
			want := 0
			for _, d := range dashboards(t) {
				for _, row := range d.Rows {
					for _, p := range row.Panels {
						want += len(p.queries())
					}
				}
			}
			if len(expressions) != want {
				t.Errorf("the dashboards have %d queries, want %d", len(expressions), want)
			}
			path := filepath.Join(t.TempDir(), "rules.yaml")
			writeYAML(t, path, map[string]any{"groups": []ruleGroup{{Name: "dashboards", Rules: expressions}}})
			promtool(t, "check", "rules", path)
		})
	}
}

// expressionsOf returns the queries of all rendered dashboards as rules, with values for Grafana's
// variables.
func expressionsOf(t *testing.T, rendered string) []alertRule {
	t.Helper()
	var rules []alertRule
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		var object struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		for file, text := range object.Data {
			var d struct {
				UID    string
				Panels []struct {
					Title   string
					Targets []struct{ Expr string }
				}
			}
			if err := json.Unmarshal([]byte(text), &d); err != nil || d.UID == "" {
				t.Fatalf("%s: %v: %+v", file, err, d)
			}
			for _, p := range d.Panels {
				for _, target := range p.Targets {
					rules = append(rules, alertRule{
						Record: fmt.Sprintf("query_%d", len(rules)),
						Expr:   strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(target.Expr),
					})
				}
			}
		}
	}
	return rules
}
