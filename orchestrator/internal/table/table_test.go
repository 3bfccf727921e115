package table_test

import (
	"bytes"
	"fmt"
	"testing"

	"gotest.tools/v3/golden"

	"outrigger.dev/orchestrator/internal/table"
)

// nodes returns a table with columns of each kind.
func nodes() *table.Table {
	t := &table.Table{Columns: []table.Column{
		{Name: "NODE", Min: 10}, {Name: "STATE"}, {Name: "GPUS"}, {Name: "KERNEL", Drop: 2}, {Name: "AGE", Drop: 1}, {Name: "MESSAGE", Min: 12},
	}}
	t.Add("gpu-node-0001.example.com", table.Cell{Text: "Ready", Tone: table.Good}, 8, "6.12.0-13-amd64", "3d", "")
	t.Add("n2", table.Cell{Text: "Failed", Tone: table.Bad}, "", "6.12.0-13-amd64", "", "the kubelet offers\n0 of 8 GPUs: \x1b]0;hidden\a\tcheck the log of the device plugin, größer als 3 µs")
	return t
}

func TestWidths(t *testing.T) {
	for _, width := range []int{20, 60, 100, 0} {
		name := fmt.Sprintf("width-%d.golden", width)
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := nodes().Write(table.Out{Writer: &out, Width: width}); err != nil {
				t.Fatal(err)
			}
			golden.Assert(t, out.String(), name)
		})
	}
}

func TestColours(t *testing.T) {
	var out bytes.Buffer
	if err := nodes().Write(table.Out{Writer: &out, Width: 60, Colour: true}); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, fmt.Sprintf("%q\n", out.String()), "colours.golden")
}

func TestPrint(t *testing.T) {
	v := map[string]any{"name": "a <b>", "count": 2}
	for format, want := range map[string]string{
		table.FormatJSON:  "{\n  \"count\": 2,\n  \"name\": \"a <b>\"\n}\n",
		table.FormatYAML:  "count: 2\nname: a <b>\n",
		table.FormatTable: "for people",
	} {
		var out bytes.Buffer
		err := table.Print(table.For(&out), format, v, func(o table.Out) error {
			_, err := fmt.Fprint(o, "for people")
			return err
		})
		if err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s", format, err, out.String())
		}
	}
}
