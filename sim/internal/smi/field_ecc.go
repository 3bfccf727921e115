package smi

import "unsafe" // cgo passes structs as unsafe.Pointer

func eccFields() []field {
	list := []field{
		{name: "ecc.mode.current", read: func(r *reader) string { return pair(r, "nvmlDeviceGetEccMode", 0) }},
		{name: "ecc.mode.pending", read: func(r *reader) string { return pair(r, "nvmlDeviceGetEccMode", 1) }},
		remapped("remapped_rows.correctable", 0), remapped("remapped_rows.uncorrectable", 1),
		remapped("remapped_rows.pending", 2), remapped("remapped_rows.failure", 3), // the order of nvmlDeviceGetRemappedRows
	}
	for kind, corrected := range []string{"corrected", "uncorrected"} {
		for counter, scope := range []string{"volatile", "aggregate"} {
			prefix := "ecc.errors." + corrected + "." + scope + "."
			const dram, sram = 2, 7 // nvmlMemoryLocation_t
			list = append(list, eccTotal(prefix+"total", uint32(kind), uint32(counter)),
				eccAt(prefix+"dram", uint32(kind), uint32(counter), dram, prefix+"device_memory"), eccAt(prefix+"sram", uint32(kind), uint32(counter), sram))
		}
	}
	return list
}

func eccTotal(name string, kind, counter uint32) field {
	return field{name: name, read: func(r *reader) string {
		var count uint64
		err := r.lib.deviceValueAt2(r.handle, "nvmlDeviceGetTotalEccErrors", kind, counter, unsafe.Pointer(&count))
		return optionalOf(r, count, err).format("%d")
	}}
}

func eccAt(name string, kind, counter, location uint32, aliases ...string) field {
	return field{name: name, aliases: aliases, read: func(r *reader) string {
		var count uint64
		err := r.lib.deviceValueAt3(r.handle, "nvmlDeviceGetMemoryErrorCounter", [3]uint32{kind, counter, location}, unsafe.Pointer(&count))
		return optionalOf(r, count, err).format("%d")
	}}
}

func remapped(name string, which int) field {
	return field{name: name, read: func(r *reader) string {
		var rows [4]uint32
		err := r.lib.deviceValues4(r.handle, "nvmlDeviceGetRemappedRows", &rows)
		count := optionalOf(r, rows[which], err)
		if which >= 2 { // the last two are flags
			return nameOf(count, "No", "Yes")
		}
		return count.format("%d")
	}}
}
