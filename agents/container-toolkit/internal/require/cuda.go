package require

import (
	"strconv"
	"strings"
)

// branch is a driver branch with the newest CUDA version that it supports.
type branch struct {
	driver int
	cuda   string
}

// branches returns the first driver branch that supported each CUDA version. The source is the
// table "CUDA Toolkit and Corresponding Driver Versions" of the CUDA release notes:
// https://docs.nvidia.com/cuda/archive/13.3.0/cuda-toolkit-release-notes/ has CUDA 13,
// https://docs.nvidia.com/cuda/archive/12.9.1/cuda-toolkit-release-notes/ has CUDA 10 to 12.
// Toolkit 12.7 does not exist, and the table has no driver for 13.4, which comes without one. For
// these two, nvidia-smi of the drivers 565.57.01 and 615.71.09 prints the version.
func branches() []branch {
	return []branch{
		{615, "13.4"},
		{610, "13.3"},
		{595, "13.2"},
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
		{440, "10.2"},
		{418, "10.1"},
		{410, "10.0"},
	}
}

// CUDAOf returns the newest known CUDA version that a driver supports, or "" for a driver that is
// older than CUDA 10.
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
