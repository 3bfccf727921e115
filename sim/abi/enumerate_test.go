package abi_test

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func TestErrorString(t *testing.T) {
	if got := nvml.ERROR_GPU_IS_LOST.Error(); got == "" {
		t.Error("no text")
	}
}
