package smi

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// xmlWriter writes elements, indented with tabs.
type xmlWriter struct {
	strings.Builder

	depth int
}

func (w *xmlWriter) line(text string) {
	w.WriteString(strings.Repeat("\t", w.depth) + text + "\n")
}

// section writes an element with other elements.
func (w *xmlWriter) section(name, attributes string, content func()) {
	w.line("<" + name + attributes + ">")
	w.depth++
	content()
	w.depth--
	w.line("</" + name + ">")
}

func (w *xmlWriter) value(name, value string) {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(value)) // a strings.Builder has no errors
	w.line("<" + name + ">" + escaped.String() + "</" + name + ">")
}

// section is a part of the XML output of a GPU: elements with the names of fields, or other sections.
type section struct {
	element string
	// field is the name of the field; empty: the element has the sections within.
	field  string
	within []section
}

// leaf is a shorthand for an element with a field.
func leaf(element, field string) section { return section{element: element, field: field} }

func group(element string, within ...section) section {
	return section{element: element, within: within}
}

// sections has the elements in the order of nvsmi_device_v13.dtd, as published output shows it. Elements
// whose values are not simulated are missing.
func sections() []section {
	clocks := func(element, prefix string) section {
		return group(element, leaf("graphics_clock", prefix+"graphics"), leaf("sm_clock", prefix+"sm"), leaf("mem_clock", prefix+"memory"), leaf("video_clock", prefix+"video"))
	}
	errorsOf := func(element string) section {
		return group(element,
			leaf("sram_correctable", "ecc.errors.corrected."+element+".sram"), leaf("sram_uncorrectable", "ecc.errors.uncorrected."+element+".sram"),
			leaf("dram_correctable", "ecc.errors.corrected."+element+".dram"), leaf("dram_uncorrectable", "ecc.errors.uncorrected."+element+".dram"))
	}
	reason := func(name string) section { return leaf("clocks_event_reason_"+name, "clocks_event_reasons."+name) }
	return []section{
		leaf("product_name", "name"), leaf("product_brand", "product_brand"), leaf("product_architecture", "architecture"),
		leaf("display_active", "display_active"), leaf("persistence_mode", "persistence_mode"),
		group("mig_mode", leaf("current_mig", "mig.mode.current"), leaf("pending_mig", "mig.mode.pending")),
		{element: migDevices},
		leaf("serial", "serial"), leaf("uuid", "uuid"), leaf("minor_number", "minor_number"), leaf("vbios_version", "vbios_version"),
		leaf("board_part_number", "board_part_number"),
		group("inforom_version", leaf("img_version", "inforom.img"), leaf("oem_object", "inforom.oem"), leaf("ecc_object", "inforom.ecc"), leaf("pwr_object", "inforom.pwr")),
		{element: pciElement},
		leaf("fan_speed", "fan.speed"), leaf("performance_state", "pstate"),
		group("clocks_event_reasons", reason("gpu_idle"), reason("applications_clocks_setting"), reason("sw_power_cap"), reason("hw_slowdown"),
			reason("hw_thermal_slowdown"), reason("hw_power_brake_slowdown"), reason("sync_boost"), reason("sw_thermal_slowdown")),
		group("fb_memory_usage", leaf("total", "memory.total"), leaf("reserved", "memory.reserved"), leaf("used", "memory.used"), leaf("free", "memory.free")),
		group("bar1_memory_usage", leaf("total", "bar1.total"), leaf("used", "bar1.used"), leaf("free", "bar1.free")),
		leaf("compute_mode", "compute_mode"),
		group("utilization", leaf("gpu_util", "utilization.gpu"), leaf("memory_util", "utilization.memory"), leaf("encoder_util", "utilization.encoder"),
			leaf("decoder_util", "utilization.decoder"), leaf("jpeg_util", "utilization.jpeg"), leaf("ofa_util", "utilization.ofa")),
		group("ecc_mode", leaf("current_ecc", "ecc.mode.current"), leaf("pending_ecc", "ecc.mode.pending")),
		group("ecc_errors", errorsOf("volatile"), errorsOf("aggregate")),
		group("remapped_rows", leaf("remapped_row_corr", "remapped_rows.correctable"), leaf("remapped_row_unc", "remapped_rows.uncorrectable"),
			leaf("remapped_row_pending", "remapped_rows.pending"), leaf("remapped_row_failure", "remapped_rows.failure")),
		group("temperature", leaf("gpu_temp", "temperature.gpu"), leaf("gpu_temp_tlimit", "temperature.gpu.tlimit"), leaf("memory_temp", "temperature.memory")),
		group("gpu_power_readings", leaf("power_state", "pstate"), leaf("average_power_draw", "power.draw.average"), leaf("instant_power_draw", "power.draw.instant"),
			leaf("current_power_limit", "enforced.power.limit"), leaf("requested_power_limit", "power.limit"), leaf("default_power_limit", "power.default_limit"),
			leaf("min_power_limit", "power.min_limit"), leaf("max_power_limit", "power.max_limit")),
		clocks("clocks", "clocks.current."),
		group("applications_clocks", leaf("graphics_clock", "clocks.applications.graphics"), leaf("mem_clock", "clocks.applications.memory")),
		clocks("max_clocks", "clocks.max."),
		group("fabric", leaf("state", "fabric.state"), leaf("status", "fabric.status")),
		{element: processesElement},
	}
}

// Elements that are not made of fields.
const (
	migDevices       = "mig_devices"
	pciElement       = "pci"
	processesElement = "processes"
)

// writeXML prints the output of nvidia-smi -q -x, as far as it is simulated.
func (q query) writeXML(lib *library, out io.Writer) error {
	readers, faults := q.readers(lib)
	if faults != nil && len(readers) == 0 {
		return faults
	}
	set := fields()
	w := &xmlWriter{}
	w.line(`<?xml version="1.0" ?>`)
	w.line(`<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">`)
	w.section("nvidia_smi_log", "", func() {
		w.value("timestamp", time.Now().Format(time.ANSIC))
		if len(readers) > 0 {
			w.value("driver_version", readers[0].node.driver)
			w.value("cuda_version", lib.cuda())
			w.value("attached_gpus", fmt.Sprint(readers[0].node.count))
		}
		for _, r := range readers {
			w.section("gpu", ` id="`+r.gpuBus()+`"`, func() { w.sections(set, r, sections()) })
		}
	})
	errs := []error{faults}
	for _, r := range readers {
		errs = append(errs, r.err)
	}
	_, err := io.WriteString(out, w.String())
	return errors.Join(append(errs, err)...)
}

func (r *reader) gpuBus() string {
	return device{pci: get[pciInfo](r, "nvmlDeviceGetPciInfo_v3")}.busID()
}

func (w *xmlWriter) sections(set fieldSet, r *reader, list []section) {
	for _, s := range list {
		switch {
		case s.element == migDevices:
			w.migDevices(r)
		case s.element == pciElement:
			w.pci(set, r)
		case s.element == processesElement:
			w.processes(r)
		case s.field == "":
			w.section(s.element, "", func() { w.sections(set, r, s.within) })
		default:
			w.value(s.element, set.text(s.field, r))
		}
	}
}

// text returns the value of a field with its unit. Temperatures have a unit only in XML.
func (s fieldSet) text(name string, r *reader) string {
	f, err := s.find(name)
	if err != nil {
		return unknown
	}
	if strings.HasPrefix(name, "temperature.") {
		f.unit = "C"
	}
	return f.text(r)
}
