// Package dashboards evaluates Grafana's dashboards on a Prometheus, and draws them. It supports
// the panels in the dashboards of the chart dcgm-exporter: time series, stats and tables.
package dashboards

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Dashboard has the parts of a dashboard that this package reads from Grafana's JSON.
type Dashboard struct {
	UID, Title string
	Templating struct{ List []Variable }
	Panels     []Panel
}

// Variable is a value that the user chooses.
type Variable struct {
	Name, Label, Type string
	// Query is a text, or an object with one.
	Query      json.RawMessage
	IncludeAll bool
}

// Panel is a panel of a dashboard. Type "row" is the title of the panels below it.
type Panel struct {
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Targets     []Target
	FieldConfig struct {
		Defaults Field
	}
	Options struct {
		SortBy []struct {
			DisplayName string
			Desc        bool
		}
	}
	Transformations []struct {
		ID      string
		Options struct {
			ExcludeByName map[string]bool
			RenameByName  map[string]string
		}
	}
}

// Target is a query of a panel.
type Target struct{ Expr, LegendFormat, RefID string }

// Field is the display format of values.
type Field struct {
	Unit       string
	Custom     struct{ DrawStyle string }
	Min, Max   *float64
	Thresholds struct {
		Steps []struct {
			Color string
			Value *float64
		}
	}
	Mappings []struct {
		Options map[string]struct{ Text, Color string }
	}
}

// Parse reads a dashboard.
func Parse(text string) (Dashboard, error) {
	var d Dashboard
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return d, fmt.Errorf("parse dashboard: %w", err)
	}
	return d, nil
}

// query returns the text of the query of a variable.
func (v Variable) query() string {
	var object struct{ Query string }
	if json.Unmarshal(v.Query, &object) == nil {
		return object.Query
	}
	var text string
	_ = json.Unmarshal(v.Query, &text) // it is a text or an object
	return text
}

// Values has the values of variables by name.
type Values map[string]string

// in returns an expression with its variables replaced by values.
func (v Values) in(expr string) string {
	return regexp.MustCompile(`\$\{?(\w+)\}?`).ReplaceAllStringFunc(expr, func(name string) string {
		if value, ok := v[strings.Trim(name, "${}")]; ok {
			return value
		}
		return name
	})
}

// legend returns the name of a series.
func legend(format string, labels map[string]string) string {
	if format == "" {
		return text(labels)
	}
	return strings.Join(strings.Fields(regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`).ReplaceAllStringFunc(format, func(name string) string {
		return labels[strings.Trim(name, "{} ")]
	})), " ")
}
