package dashboards

import (
	"fmt"
	"html"
	"math"
	"strings"
	"time"
)

// palette returns the color of series i.
func palette(i int) string {
	colors := []string{"#56a64b", "#e0a800", "#3274d9", "#e0752d", "#c4162a", "#8f3bb8", "#00857c", "#7a6652", "#b877d9", "#5f9ea0"}
	return colors[i%len(colors)]
}

// line is a series of a chart.
type line struct {
	name, color string
	points      []Point
}

// lines returns the lines of a panel.
func lines(p Panel, a Answer) (out []line) {
	for i, series := range a {
		for _, s := range series {
			out = append(out, line{legend(p.Targets[i].LegendFormat, s.Labels), palette(len(out)), s.Points})
		}
	}
	return out
}

// plot is the area of a chart in pixels, with its ranges of times and values.
type plot struct {
	left, top, width, height float64
	from, to                 float64
	low, high                float64
}

func (p plot) x(at float64) float64 { return p.left + p.width*(at-p.from)/(p.to-p.from) }
func (p plot) y(v float64) float64  { return p.top + p.height*(1-(v-p.low)/(p.high-p.low)) }

// path returns the line of a series. It has a gap if values are missing for longer than gap
// seconds.
func (p plot) path(points []Point, gap float64) string {
	var out strings.Builder
	command := "M"
	for i, point := range points {
		if math.IsNaN(point.Value) || i > 0 && point.At-points[i-1].At > gap {
			command = "M"
		}
		if math.IsNaN(point.Value) {
			continue
		}
		fmt.Fprintf(&out, "%s%.1f %.1f", command, p.x(point.At), p.y(math.Min(point.Value, p.high)))
		if command == "M" { // a point without neighbors is a line of no length
			out.WriteString("h0")
		}
		command = "L"
	}
	return out.String()
}

// bars returns a vertical line for each value.
func (p plot) bars(points []Point) string {
	var out strings.Builder
	for _, point := range points {
		if point.Value > 0 {
			fmt.Fprintf(&out, "M%.1f %.1fV%.1f", p.x(point.At), p.y(0), p.y(point.Value))
		}
	}
	return out.String()
}

// newPlot returns the plot for the lines of a panel.
func newPlot(f Field, all []line, w Window, width, height int) plot {
	p := plot{left: 62, top: 8, width: float64(width - 74), height: float64(height - 34), from: float64(w.From.Unix()), to: float64(w.To.Unix())}
	p.low, p.high = math.Inf(1), math.Inf(-1)
	for _, l := range all {
		for _, point := range l.points {
			if !math.IsNaN(point.Value) {
				p.low, p.high = math.Min(p.low, point.Value), math.Max(p.high, point.Value)
			}
		}
	}
	if f.Min != nil {
		p.low = math.Min(p.low, *f.Min)
	}
	if f.Max != nil {
		p.high = *f.Max
	} else {
		p.high += (p.high - p.low) * 0.05
	}
	if !(p.high > p.low) {
		p.high = p.low + 1
	}
	return p
}

// timeseries draws the lines of a panel with axes and a legend.
func timeseries(p Panel, a Answer, w Window, width, height int) string {
	all := lines(p, a)
	names := 0
	for _, l := range all {
		names += len(l.name)*7 + 28
	}
	legendHeight := 18 * min(4, 1+names/(width-24))
	area := newPlot(p.FieldConfig.Defaults, all, w, width, height-legendHeight)
	u := unitOf(p.FieldConfig.Defaults.Unit)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg width="%d" height="%d">`, width, height-legendHeight)
	for _, v := range u.ticks(area.low, area.high) {
		fmt.Fprintf(&out, `<path class="grid" d="M%.1f %.1fh%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
			area.left, area.y(v), area.width, area.left-6, area.y(v)+4, u.show(v))
	}
	times := max(2, width/150)
	for i := range times + 1 {
		at := w.From.Add(w.To.Sub(w.From) * time.Duration(i) / time.Duration(times))
		anchor := "middle"
		if i == times {
			anchor = "end"
		}
		fmt.Fprintf(&out, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`,
			area.x(float64(at.Unix())), area.top+area.height+16, anchor, at.UTC().Format("15:04:05"))
	}
	for _, l := range all {
		class, d := "line", area.path(l.points, 2.5*w.Step.Seconds())
		if p.FieldConfig.Defaults.Custom.DrawStyle == "bars" {
			class, d = "bar", area.bars(l.points)
		}
		fmt.Fprintf(&out, `<path class="%s" stroke="%s" d="%s"/>`, class, l.color, d)
	}
	out.WriteString(`</svg><div class="legend">`)
	for _, l := range all {
		fmt.Fprintf(&out, `<span><i style="background:%s"></i>%s</span>`, l.color, html.EscapeString(l.name))
	}
	return out.String() + "</div>"
}
