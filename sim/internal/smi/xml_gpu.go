package smi

import (
	"fmt"
	"strings"
)

// pci writes the place on the PCI bus. The numbers have no prefix there.
func (w *xmlWriter) pci(set fieldSet, r *reader) {
	hex := func(field string) string { return strings.TrimPrefix(set.text(field, r), "0x") }
	w.section(pciElement, "", func() {
		w.value("pci_bus", hex("pci.bus"))
		w.value("pci_device", hex("pci.device"))
		w.value("pci_domain", hex("pci.domain"))
		w.value("pci_device_id", hex("pci.device_id"))
		w.value("pci_bus_id", r.gpuBus())
		w.value("pci_sub_system_id", hex("pci.sub_device_id"))
		w.section("pci_gpu_link_info", "", func() {
			w.section("pcie_gen", "", func() {
				w.value("max_link_gen", set.text("pcie.link.gen.max", r))
				w.value("current_link_gen", set.text("pcie.link.gen.current", r))
			})
			width := func(field string) string {
				if n := set.text(field, r); n != unknown {
					return n + "x"
				}
				return unknown
			}
			w.section("link_widths", "", func() {
				w.value("max_link_width", width("pcie.link.width.max"))
				w.value("current_link_width", width("pcie.link.width.current"))
			})
		})
	})
}

func (w *xmlWriter) migDevices(r *reader) {
	w.section(migDevices, "", func() {
		if len(r.gpu.mig) == 0 {
			w.line("None")
		}
		for _, m := range r.gpu.mig {
			p := r.lib.part(m, r)
			w.section("mig_device", "", func() {
				w.value("index", fmt.Sprint(p.index))
				w.value("uuid", p.uuid)
				w.value("gpu_instance_id", p.gpuInstance.format("%d"))
				w.value("compute_instance_id", p.computeInstance.format("%d"))
				w.section("fb_memory_usage", "", func() {
					for _, v := range []struct {
						name  string
						bytes uint64
					}{{"total", p.memory.value.total}, {"reserved", p.memory.value.reserved}, {"used", p.memory.value.used}, {"free", p.memory.value.free}} {
						w.value(v.name, optional[uint64]{v.bytes >> 20, p.memory.known}.format("%d MiB")) // from bytes
					}
				})
			})
		}
	})
}

func (w *xmlWriter) processes(r *reader) {
	w.section(processesElement, "", func() {
		for _, p := range r.lib.processes(r) {
			w.section("process_info", "", func() {
				w.value("gpu_instance_id", instance(p.gpuInstance))
				w.value("compute_instance_id", instance(p.computeInstance))
				w.value("pid", fmt.Sprint(p.pid))
				w.value("type", p.kind)
				w.value("process_name", p.name)
				w.value("used_memory", fmt.Sprintf("%d MiB", p.memory>>20))
			})
		}
	})
}
