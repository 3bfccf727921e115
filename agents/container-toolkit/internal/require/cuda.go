package require

import (
	"strconv"
	"strings"
)

// branch is a driver with the newest version of CUDA that it supports.
type branch struct {
	driver int
	cuda   string
}

// branches are the first drivers that supported a version of CUDA, from the tables "CUDA
// Toolkit and Corresponding Driver Versions" of the CUDA release notes.
func branches() []branch {
	return []branch{
		{590, "13.1"},
		{580, "13.0"},
		{575, "12.9"},
		{570, "12.8"},
		{565, "12.7"},
		{560, "12.6"},
		{555, "12.5"},
		{550, "12.4"},
		{545, "12.3"},
		{535, "12.2"},
		{530, "12.1"},
		{525, "12.0"},
		{520, "11.8"},
		{515, "11.7"},
		{510, "11.6"},
		{495, "11.5"},
		{470, "11.4"},
		{465, "11.3"},
		{460, "11.2"},
		{455, "11.1"},
		{450, "11.0"},
	}
}

// CUDAOf returns the newest version of CUDA that a driver supports, or of those that this
// program knows; "" for a driver that is older than CUDA 11.
func CUDAOf(driver string) string {
	major, _, _ := strings.Cut(driver, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return ""
	}
	for _, b := range branches() {
		if n >= b.driver {
			return b.cuda
		}
	}
	return ""
}
