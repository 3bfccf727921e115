package smi

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// The table has the format of nvidia-smi 570.

// rule returns a horizontal line of the table, with joints between columns of these widths.
func rule(left, line, joint, right string, widths ...int) string {
	parts := make([]string, len(widths))
	for i, w := range widths {
		parts[i] = strings.Repeat(line, w)
	}
	return left + strings.Join(parts, joint) + right + "\n"
}

// tableWidth is the width of a row with one column.
const tableWidth = 89

func row(cells ...string) string { return "|" + strings.Join(cells, "|") + "|\n" }

// shorten shortens text to a width.
func shorten(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return string(r[:width-3]) + "..."
	}
	return text
}

// writeTable writes the output of nvidia-smi without arguments.
func (n node) writeTable(out io.Writer) error {
	var b strings.Builder
	b.WriteString(n.time.Format(time.ANSIC) + "\n")
	n.writeGPUs(&b)
	n.writeParts(&b)
	n.writeProcesses(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

func (n node) writeGPUs(b *strings.Builder) {
	widths := []int{41, 24, 22}
	b.WriteString(rule("+", "-", "-", "+", tableWidth))
	b.WriteString(row(fmt.Sprintf(" NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s ", n.driver, n.driver, n.cuda)))
	b.WriteString(rule("|", "-", "+", "+", widths...))
	b.WriteString(row(" GPU  Name                 Persistence-M ", " Bus-Id          Disp.A ", " Volatile Uncorr. ECC "))
	b.WriteString(row(" Fan  Temp   Perf          Pwr:Usage/Cap ", "           Memory-Usage ", " GPU-Util  Compute M. "))
	b.WriteString(row(strings.Repeat(" ", 41), strings.Repeat(" ", 24), "               MIG M. "))
	b.WriteString(rule("|", "=", "+", "|", widths...))
	for _, d := range n.devices {
		if d.err != nil {
			continue
		}
		b.WriteString(row(
			fmt.Sprintf(" %3d  %-29s %3s  ", d.index, shorten(d.name, 29), nameOf(d.persistence, "Off", "On")),
			fmt.Sprintf("   %-16s %3s ", d.busID(), nameOf(d.display, "Off", "On")),
			fmt.Sprintf(" %20s ", d.eccErrors.format("%d"))))
		b.WriteString(row(
			fmt.Sprintf(" %3s  %4s    %-4s %12s / %6s ", d.fan.format("%d%%"), d.temperature.format("%dC"), d.performance.format("P%d"), watts(d.power), watts(d.powerLimit)),
			fmt.Sprintf(" %10s / %9s ", mib(d.memory, memory.inUse), mib(d.memory, memory.all)),
			fmt.Sprintf(" %7s %12s ", percentage(d.utilization), nameOf(d.computeMode, computeModes()...))))
		b.WriteString(row(strings.Repeat(" ", 41), strings.Repeat(" ", 24), fmt.Sprintf(" %20s ", d.migWord())))
		b.WriteString(rule("+", "-", "+", "+", widths...))
	}
	b.WriteString("\n")
}

// migWord returns the MIG mode, followed by a star if another mode is pending.
func (d device) migWord() string {
	w := nameOf(d.migMode, "Disabled", "Enabled")
	if d.migMode != d.migPending {
		w += "*"
	}
	return w
}

func computeModes() []string {
	return []string{"Default", "E. Thread", "Prohibited", "E. Process"}
}

func watts(milliwatts optional[uint32]) string {
	return optional[uint32]{milliwatts.value / 1000, milliwatts.known}.format("%dW")
}

func percentage(u optional[utilization]) string {
	return optional[uint32]{u.value.gpu, u.known}.format("%d%%")
}

func (m memory) all() uint64   { return m.total }
func (m memory) inUse() uint64 { return m.used }

// mib returns the part of the memory that the function of selects, in MiB.
func mib(m optional[memory], of func(memory) uint64) string {
	return optional[uint64]{of(m.value) >> 20, m.known}.format("%dMiB")
}

// writeParts writes the MIG devices if a GPU is in MIG mode.
func (n node) writeParts(b *strings.Builder) {
	enabled, rows := false, 0
	widths := []int{18, 34, 11, 23}
	var lines strings.Builder
	for _, d := range n.devices {
		enabled = enabled || d.migMode.known && d.migMode.value == 1
		for _, p := range d.parts {
			rows++
			a := func(of func(attributes) uint32) string {
				return optional[uint32]{of(p.attributes.value), p.attributes.known}.format("%d")
			}
			lines.WriteString(row(
				fmt.Sprintf(" %2d %4s %3s %3d  ", d.index, p.gpuInstance.format("%d"), p.computeInstance.format("%d"), p.index),
				fmt.Sprintf(" %18s / %8s    ", mib(p.memory, memory.inUse), mib(p.memory, memory.all)),
				fmt.Sprintf("%3s %6s ", a(func(a attributes) uint32 { return a.sms }), unknown),
				fmt.Sprintf("%3s %3s %4s %4s %4s ", a(func(a attributes) uint32 { return a.copies }), a(func(a attributes) uint32 { return a.encoders }),
					a(func(a attributes) uint32 { return a.decoders }), a(func(a attributes) uint32 { return a.ofas }), a(func(a attributes) uint32 { return a.jpegs }))))
			lines.WriteString(rule("+", "-", "+", "+", widths...))
		}
	}
	if !enabled {
		return
	}
	b.WriteString(rule("+", "-", "-", "+", tableWidth))
	b.WriteString(row(fmt.Sprintf(" %-*s", tableWidth-1, "MIG devices:")))
	if rows == 0 {
		b.WriteString(rule("|", "=", "=", "|", tableWidth))
		b.WriteString(row(fmt.Sprintf("  %-*s", tableWidth-2, "No MIG devices found")))
		b.WriteString(rule("+", "-", "-", "+", tableWidth) + "\n")
		return
	}
	b.WriteString(rule("+", "-", "+", "+", widths...))
	b.WriteString(row(" GPU  GI  CI  MIG ", "                     Memory-Usage ", "        Vol", "        Shared         "))
	b.WriteString(row("      ID  ID  Dev ", strings.Repeat(" ", 34), " SM     Unc", " CE ENC  DEC  OFA  JPG "))
	b.WriteString(row(strings.Repeat(" ", 18), strings.Repeat(" ", 34), "        ECC", strings.Repeat(" ", 23)))
	b.WriteString(rule("|", "=", "+", "|", widths...))
	b.WriteString(lines.String() + "\n")
}

func (n node) writeProcesses(b *strings.Builder) {
	b.WriteString(rule("+", "-", "-", "+", tableWidth))
	b.WriteString(row(fmt.Sprintf(" %-*s", tableWidth-1, "Processes:")))
	b.WriteString(row(fmt.Sprintf("  GPU   GI   CI              PID   Type   %-*s%-11s", tableWidth-53, "Process name", "GPU Memory")))
	b.WriteString(row(fmt.Sprintf("        ID   ID%*s%-11s", tableWidth-26, "", "Usage")))
	b.WriteString(rule("|", "=", "=", "|", tableWidth))
	found := false
	for _, d := range n.devices {
		for _, p := range d.processes {
			found = true
			b.WriteString(row(fmt.Sprintf(" %4d  %4s %4s %16d %6s   %-35s %9s ",
				d.index, instance(p.gpuInstance), instance(p.computeInstance), p.pid, p.kind, shorten(p.name, 35), fmt.Sprintf("%dMiB", p.memory>>20))))
		}
	}
	if !found {
		b.WriteString(row(fmt.Sprintf("  %-*s", tableWidth-2, "No running processes found")))
	}
	b.WriteString(rule("+", "-", "-", "+", tableWidth))
}

// instance returns the ID of an instance, or "N/A" for a process on the whole GPU.
func instance(id uint32) string {
	return optional[uint32]{id, id != noInstance}.format("%d")
}
