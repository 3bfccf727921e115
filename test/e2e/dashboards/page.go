package dashboards

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// The size of Grafana's grid in pixels.
const (
	column = 50
	row    = 38
	// title is the height of a panel's title.
	title = 26
	// head is the height of the dashboard's title.
	head = 44
)

// Width of a page in pixels.
const Width = 24*column + 16

// Height returns the height of the dashboard's page in pixels.
func (d Dashboard) Height() int {
	bottom := 0
	for _, p := range d.Panels {
		bottom = max(bottom, p.GridPos.Y+p.GridPos.H)
	}
	return head + bottom*row + 8
}

const style = `body{margin:0;background:#f4f5f5;font:12px "DejaVu Sans",sans-serif;color:#24292e}
h1{font-size:18px;font-weight:500;margin:0;padding:11px 16px}
section,h2{position:absolute;box-sizing:border-box;overflow:hidden;margin:0}
section{background:#fff;border:1px solid #dcdee0;border-radius:2px}
h2{font-size:14px;font-weight:500;padding:8px 2px} h3{font-size:12px;font-weight:500;margin:0;padding:6px 8px 4px}
svg{display:block} svg text{font-size:11px;fill:#5b6065} .grid{stroke:#e6e8ea} .bar{stroke-width:3} .line{fill:none;stroke-width:1.5;stroke-linecap:round;stroke-linejoin:round}
.legend{padding:0 10px;line-height:18px} .legend span{margin-right:14px;white-space:nowrap;font-size:11px}
.legend i{display:inline-block;width:12px;height:3px;vertical-align:middle;margin-right:5px}
.stat{display:flex;height:calc(100% - 26px);align-items:center;justify-content:space-evenly;font-size:26px;font-weight:500}
.stat small{display:block;font-size:11px;color:#5b6065;text-align:center;font-weight:400}
table{border-collapse:collapse;width:100%} th{text-align:left;color:#3274d9;font-weight:500} td,th{padding:6px 10px;border-bottom:1px solid #e6e8ea}
.nodata{padding:40px;text-align:center;color:#c4162a}`

// Draw returns the HTML page of a dashboard with the answers that Ask returned.
func Draw(d Dashboard, answers []Answer, w Window) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "<!DOCTYPE html><meta charset=utf-8><title>%[1]s</title><style>%[2]s</style><h1>%[1]s</h1>", html.EscapeString(d.Title), style)
	for i, p := range d.Panels {
		width, height := p.GridPos.W*column-8, p.GridPos.H*row-8
		at := fmt.Sprintf(`style="left:%dpx;top:%dpx;width:%dpx;height:%dpx"`, 12+p.GridPos.X*column, head+p.GridPos.Y*row, width, height)
		if p.Type == "row" {
			fmt.Fprintf(&out, "<h2 %s>%s</h2>", at, html.EscapeString(p.Title))
			continue
		}
		body, err := draw(p, answers[i], w, width-2, height-title-2)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "<section %s><h3>%s</h3>%s</section>", at, html.EscapeString(p.Title), body)
	}
	return out.String(), nil
}

func draw(p Panel, a Answer, w Window, width, height int) (string, error) {
	if !slices.ContainsFunc(a, func(series []Series) bool { return len(series) > 0 }) {
		return `<div class="nodata">No data</div>`, nil
	}
	switch p.Type {
	case "timeseries":
		return timeseries(p, a, w, width, height), nil
	case "stat":
		return stat(p, a), nil
	case "table":
		return table(p, a), nil
	default:
		return "", fmt.Errorf("draw panel %q: type %s is not known", p.Title, p.Type)
	}
}

// stat shows the last value of each series.
func stat(p Panel, a Answer) string {
	var out strings.Builder
	all := lines(p, a)
	f := p.FieldConfig.Defaults
	for _, l := range all {
		v := l.points[len(l.points)-1].Value
		value, color := f.show(v), f.color(v)
		name := ""
		if len(all) > 1 {
			name = "<small>" + html.EscapeString(l.name) + "</small>"
		}
		fmt.Fprintf(&out, `<span style="color:%s">%s%s</span>`, color, html.EscapeString(value), name)
	}
	return `<div class="stat">` + out.String() + `</div>`
}

// show returns a value in the format of the field.
func (f Field) show(v float64) string {
	for _, m := range f.Mappings {
		if mapped, ok := m.Options[strconv.FormatFloat(v, 'f', -1, 64)]; ok {
			return mapped.Text
		}
	}
	return unitOf(f.Unit).show(v)
}

// color returns the color of a value by the field's thresholds and mappings.
func (f Field) color(v float64) (color string) {
	colors := map[string]string{"green": "#3a9139", "yellow": "#c99400", "orange": "#e0752d", "red": "#c4162a", "text": "#24292e"}
	for _, step := range f.Thresholds.Steps {
		if step.Value == nil || v >= *step.Value {
			color = step.Color
		}
	}
	for _, m := range f.Mappings {
		if mapped, ok := m.Options[strconv.FormatFloat(v, 'f', -1, 64)]; ok && mapped.Color != "" {
			color = mapped.Color
		}
	}
	return colors[color]
}

// cells is a row of a table: texts and values by column.
type cells struct {
	labels map[string]string
	values map[string]float64
}

// merged returns the rows of a table. The values of all queries with equal labels are in one row.
func merged(p Panel, a Answer) []*cells {
	byLabels := map[string]*cells{}
	var out []*cells
	for i, series := range a {
		name := "Value"
		if len(a) > 1 {
			name += " #" + p.Targets[i].RefID
		}
		for _, s := range series {
			key := text(s.Labels)
			if byLabels[key] == nil {
				byLabels[key] = &cells{s.Labels, map[string]float64{}}
				out = append(out, byLabels[key])
			}
			byLabels[key].values[name] = s.last()
		}
	}
	return out
}

// table shows the series of all queries as rows.
func table(p Panel, a Answer) string {
	rename := func(name string) string { return name }
	hidden := map[string]bool{}
	for _, t := range p.Transformations {
		if t.ID != "organize" {
			continue
		}
		hidden = t.Options.ExcludeByName
		rename = func(name string) string { return cmp.Or(t.Options.RenameByName[name], name) }
	}
	rows := merged(p, a)
	labels, values := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		for name := range r.labels {
			labels[name] = true
		}
		for name := range r.values {
			values[name] = !hidden[name]
		}
	}
	for _, by := range p.Options.SortBy {
		sort.SliceStable(rows, func(i, j int) bool {
			return by.Desc && rows[i].by(by.DisplayName, rename) > rows[j].by(by.DisplayName, rename)
		})
	}
	var out strings.Builder
	out.WriteString("<table><tr>")
	names, numbers := sortedKeys(labels), sortedKeys(values)
	for _, name := range slices.Concat(names, numbers) {
		fmt.Fprintf(&out, "<th>%s</th>", html.EscapeString(rename(name)))
	}
	for _, r := range rows {
		out.WriteString("</tr><tr>")
		for _, name := range names {
			fmt.Fprintf(&out, "<td>%s</td>", html.EscapeString(r.labels[name]))
		}
		for _, name := range numbers {
			shown := ""
			if v, ok := r.values[name]; ok {
				shown = p.FieldConfig.Defaults.show(v)
			}
			fmt.Fprintf(&out, "<td>%s</td>", html.EscapeString(shown))
		}
	}
	return out.String() + "</tr></table>"
}

// by returns the value of the column with a displayed name.
func (c *cells) by(shown string, rename func(string) string) float64 {
	for name, v := range c.values {
		if rename(name) == shown {
			return v
		}
	}
	return math.Inf(-1)
}

func sortedKeys(set map[string]bool) []string {
	var out []string
	for name, has := range set {
		if has {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
