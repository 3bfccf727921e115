package smi

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// logger writes the lines of nvidia-smi -q.
type logger struct{ strings.Builder }

// title writes the heading of a section at a depth.
func (l *logger) title(depth int, name string) {
	fmt.Fprintf(l, "%s%s\n", strings.Repeat("    ", depth), name)
}

// value writes a value at a depth.
func (l *logger) value(depth int, name, value string) {
	fmt.Fprintf(l, "%-*s: %s\n", 42, strings.Repeat("    ", depth)+name, value)
}

// writeLog writes the output of nvidia-smi -q, as far as it is simulated.
func (n node) writeLog(out io.Writer) error {
	l := &logger{}
	l.WriteString("\n==============NVSMI LOG==============\n\n")
	l.value(0, "Timestamp", n.time.Format(time.ANSIC))
	l.value(0, "Driver Version", n.driver)
	l.value(0, "CUDA Version", n.cuda)
	l.WriteString("\n")
	l.value(0, "Attached GPUs", fmt.Sprint(n.attached))
	for _, d := range n.devices {
		if d.err == nil {
			d.writeLog(l)
		}
	}
	_, err := io.WriteString(out, l.String())
	return err
}

func (d device) writeLog(l *logger) {
	mode := []string{"Disabled", "Enabled"}
	l.title(0, "GPU "+d.busID())
	l.value(1, "Product Name", d.name)
	l.value(1, "Product Architecture", nameOf(d.architecture, architectures()...))
	l.value(1, "Display Active", nameOf(d.display, mode...))
	l.value(1, "Persistence Mode", nameOf(d.persistence, mode...))
	l.title(1, "MIG Mode")
	l.value(2, "Current", nameOf(d.migMode, mode...))
	l.value(2, "Pending", nameOf(d.migPending, mode...))
	d.writeParts(l)
	d.writeLicences(l)
	l.value(1, "Serial Number", d.serial.format("%s"))
	l.value(1, "GPU UUID", d.uuid)
	l.value(1, "Minor Number", d.minor.format("%d"))
	l.value(1, "VBIOS Version", d.vbios.format("%s"))
	l.title(1, "PCI")
	l.value(2, "Bus Id", d.busID())
	l.value(2, "Device Id", optional[uint32]{d.pci.value.pciDeviceID, d.pci.known}.format("0x%08X"))
	l.value(2, "Current Link Generation", d.linkGeneration.format("%d"))
	l.value(2, "Current Link Width", d.linkWidth.format("%dx"))
	l.value(1, "Fan Speed", d.fan.format("%d %%"))
	l.value(1, "Performance State", d.performance.format("P%d"))
	l.writeMemory(1, d.memory)
	l.value(1, "Compute Mode", nameOf(d.computeMode, "Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"))
	l.title(1, "Utilization")
	l.value(2, "GPU", optional[uint32]{d.utilization.value.gpu, d.utilization.known}.format("%d %%"))
	l.value(2, "Memory", optional[uint32]{d.utilization.value.memory, d.utilization.known}.format("%d %%"))
	l.title(1, "ECC Errors")
	l.value(2, "Volatile Uncorrectable", d.eccErrors.format("%d"))
	l.title(1, "Temperature")
	l.value(2, "GPU Current Temp", d.temperature.format("%d C"))
	l.title(1, "GPU Power Readings")
	l.value(2, "Power Draw", wattsExact(d.power))
	l.value(2, "Current Power Limit", wattsExact(d.powerLimit))
	l.title(1, "Clocks")
	l.value(2, "Graphics", d.graphicsClock.format("%d MHz"))
	l.value(2, "SM", d.smClock.format("%d MHz"))
	l.value(2, "Memory", d.memoryClock.format("%d MHz"))
	l.value(2, "Video", d.videoClock.format("%d MHz"))
	d.writeProcesses(l)
	l.WriteString("\n")
}

func (d device) writeParts(l *logger) {
	if len(d.parts) == 0 {
		return
	}
	l.title(1, "MIG Device")
	for _, p := range d.parts {
		l.value(2, "Index", fmt.Sprint(p.index))
		l.value(2, "MIG UUID", p.uuid)
		l.value(2, "GPU Instance ID", p.gpuInstance.format("%d"))
		l.value(2, "Compute Instance ID", p.computeInstance.format("%d"))
		l.writeMemory(2, p.memory)
	}
}

// writeLicences writes the products that need a license. A GPU without vGPU has none.
func (d device) writeLicences(l *logger) {
	all := d.licences.value
	if all.supported == 0 {
		return
	}
	for _, f := range all.features[:min(int(all.count), len(all.features))] {
		if f.enabled != 0 {
			product, _, _ := bytes.Cut(f.product[:], []byte{0})
			l.title(1, "vGPU Software Licensed Product")
			l.value(2, "Product Name", string(product))
			l.value(2, "License Status", f.status())
		}
	}
}

// status returns the state of a license. Values of expiry.status are NVML_GRID_LICENSE_EXPIRY_*.
func (f licence) status() string {
	const invalid, valid, permanent = 1, 2, 4
	if f.licensed == 0 {
		return "Unlicensed"
	}
	end := unknown
	switch e := f.expiry; e.status {
	case invalid:
		end = "ERR!"
	case valid:
		end = fmt.Sprintf("%d-%d-%d %d:%d:%d GMT", e.year, e.month, e.day, e.hour, e.minute, e.sec)
	case permanent:
		end = "Permanent"
	}
	return "Licensed (Expiry: " + end + ")"
}

func (l *logger) writeMemory(depth int, m optional[memory]) {
	part := func(of uint64) string { return optional[uint64]{of >> 20, m.known}.format("%d MiB") }
	l.title(depth, "FB Memory Usage")
	l.value(depth+1, "Total", part(m.value.total))
	l.value(depth+1, "Reserved", part(m.value.reserved))
	l.value(depth+1, "Used", part(m.value.used))
	l.value(depth+1, "Free", part(m.value.free))
}

func wattsExact(milliwatts optional[uint32]) string {
	return optional[float64]{float64(milliwatts.value) / 1000, milliwatts.known}.format("%.2f W")
}

func (d device) writeProcesses(l *logger) {
	if len(d.processes) == 0 {
		l.value(1, "Processes", "None")
		return
	}
	l.title(1, "Processes")
	for _, p := range d.processes {
		l.value(2, "GPU instance ID", instance(p.gpuInstance))
		l.value(2, "Compute instance ID", instance(p.computeInstance))
		l.value(2, "Process ID", fmt.Sprint(p.pid))
		l.value(3, "Type", p.kind)
		l.value(3, "Name", p.name)
		l.value(3, "Used GPU Memory", fmt.Sprintf("%d MiB", p.memory>>20))
	}
}
