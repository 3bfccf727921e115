package dashboards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Prometheus is the URL of a server.
type Prometheus string

// Series is a series of values.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Point is a value at a time in seconds since 1970.
type Point struct{ At, Value float64 }

// last returns the newest value.
func (s Series) last() float64 { return s.Points[len(s.Points)-1].Value }

// Get requests an endpoint of the API, such as "rules", and decodes the data in the response.
func (p Prometheus) Get(ctx context.Context, endpoint string, query url.Values, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, string(p)+"/api/v1/"+endpoint+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	// An idle connection would leak a goroutine.
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("ask Prometheus: status %d: %w", resp.StatusCode, err)
	}
	if answer.Error != "" {
		return fmt.Errorf("ask Prometheus: %s", answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// Window is a time range with the interval between two points.
type Window struct {
	From, To time.Time
	Step     time.Duration
}

// Query returns the series of an expression at the end of the window.
func (p Prometheus) Query(ctx context.Context, expr string, w Window) ([]Series, error) {
	return p.series(ctx, "query", url.Values{"query": {expr}, "time": {seconds(w.To)}})
}

// Range returns the series of an expression in the window.
func (p Prometheus) Range(ctx context.Context, expr string, w Window) ([]Series, error) {
	step := strconv.FormatFloat(w.Step.Seconds(), 'f', -1, 64)
	return p.series(ctx, "query_range", url.Values{"query": {expr}, "start": {seconds(w.From)}, "end": {seconds(w.To)}, "step": {step}})
}

func (p Prometheus) series(ctx context.Context, endpoint string, query url.Values) ([]Series, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  json.RawMessage
			Values []json.RawMessage
		}
	}
	if err := p.Get(ctx, endpoint, query, &data); err != nil {
		return nil, fmt.Errorf("%w: %s", err, query.Get("query"))
	}
	var out []Series
	for _, r := range data.Result {
		s := Series{Labels: r.Metric}
		if r.Value != nil {
			r.Values = append(r.Values, r.Value)
		}
		for _, value := range r.Values {
			point, err := parsePoint(value)
			if err != nil {
				return nil, err
			}
			s.Points = append(s.Points, point)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Series) int { return strings.Compare(text(a.Labels), text(b.Labels)) })
	return out, nil
}

// parsePoint reads a time and a value: [1, "2"].
func parsePoint(value json.RawMessage) (Point, error) {
	var at float64
	var v string
	if err := json.Unmarshal(value, &[]any{&at, &v}); err != nil {
		return Point{}, fmt.Errorf("parse value: %w", err)
	}
	number, err := strconv.ParseFloat(v, 64)
	return Point{at, number}, err
}

// text returns labels in Prometheus' notation.
func text(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func seconds(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// Values returns the values of a label that Grafana's function label_values selects.
func (p Prometheus) Values(ctx context.Context, query string, w Window) ([]string, error) {
	parts := regexp.MustCompile(`^label_values\((?:(.+), *)?(\w+)\)$`).FindStringSubmatch(query)
	if parts == nil {
		return nil, fmt.Errorf("query %s of a variable: not label_values", query)
	}
	args := url.Values{"start": {seconds(w.From)}, "end": {seconds(w.To)}}
	if parts[1] != "" {
		args.Set("match[]", parts[1])
	}
	var values []string
	if err := p.Get(ctx, "label/"+parts[2]+"/values", args, &values); err != nil {
		return nil, fmt.Errorf("%w: %s", err, query)
	}
	return slices.DeleteFunc(values, func(v string) bool { return v == "" }), nil
}

// Answer has the series of each query of a panel.
type Answer [][]Series

// errNoData says that an expression has no series.
var errNoData = errors.New("no data")

// Ask evaluates all queries of a dashboard. A variable that can have several values gets all of
// them. Other variables get their value in chosen, or else the first one. Ask returns an answer for
// each panel, and an error that names each variable and query without data.
func (p Prometheus) Ask(ctx context.Context, d Dashboard, chosen Values, w Window) ([]Answer, error) {
	values := Values{
		// Grafana's value for a scrape interval of one second.
		"__rate_interval": max(w.Step+time.Second, 4*time.Second).String(),
		"__range":         w.To.Sub(w.From).Truncate(time.Second).String(),
	}
	var errs []error
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		found, err := p.Values(ctx, values.in(v.query()), w)
		if err == nil && len(found) == 0 {
			err = errNoData
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("dashboard %q, variable %s: %w: %s", d.Title, v.Name, err, values.in(v.query())))
			continue
		}
		switch {
		case v.IncludeAll:
			values[v.Name] = "(" + strings.Join(found, "|") + ")"
		case chosen[v.Name] != "":
			values[v.Name] = chosen[v.Name]
		default:
			values[v.Name] = found[0]
		}
	}
	answers := make([]Answer, len(d.Panels))
	for i, panel := range d.Panels {
		for _, target := range panel.Targets {
			ask := p.Range
			if panel.Type == "table" {
				ask = p.Query
			}
			series, err := ask(ctx, values.in(target.Expr), w)
			if err == nil && len(series) == 0 {
				err = errNoData
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("dashboard %q, panel %q: %w: %s", d.Title, panel.Title, err, values.in(target.Expr)))
			}
			answers[i] = append(answers[i], series)
		}
	}
	return answers, errors.Join(errs...)
}
