package main

import (
	"testing"

	"outrigger.dev/pkg/gpu/simtest"
)

// The labels of each product, as NVIDIA's GPU Feature Discovery derives them: the product has dashes,
// and the family follows from the compute capability.
func TestLabelsOfProducts(t *testing.T) {
	t.Parallel()
	products := map[string][5]string{
		"a10":          {"NVIDIA-A10", "ampere", "8", "6", "false"},
		"a100-40":      {"NVIDIA-A100-SXM4-40GB", "ampere", "8", "0", "true"},
		"a100-80":      {"NVIDIA-A100-SXM4-80GB", "ampere", "8", "0", "true"},
		"a30":          {"NVIDIA-A30", "ampere", "8", "0", "true"},
		"b200":         {"NVIDIA-B200", "blackwell", "10", "0", "true"},
		"gb200":        {"NVIDIA-GB200", "blackwell", "10", "0", "true"},
		"gb300":        {"NVIDIA-GB300", "blackwell", "10", "3", "true"},
		"h100-80":      {"NVIDIA-H100-80GB-HBM3", "hopper", "9", "0", "true"},
		"h100-94":      {"NVIDIA-H100-NVL", "hopper", "9", "0", "true"},
		"h20":          {"NVIDIA-H20", "hopper", "9", "0", "true"},
		"h200":         {"NVIDIA-H200", "hopper", "9", "0", "true"},
		"l4":           {"NVIDIA-L4", "ada-lovelace", "8", "9", "false"},
		"l40s":         {"NVIDIA-L40S", "ada-lovelace", "8", "9", "false"},
		"rtx-pro-6000": {"NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "blackwell", "12", "0", "true"},
		"t4":           {"Tesla-T4", "turing", "7", "5", "false"},
	}
	for _, model := range simtest.Models(t) {
		t.Run(model, func(t *testing.T) {
			want, ok := products[model]
			if !ok {
				t.Fatalf("the labels of %s are missing in this table", model)
			}
			n := simtest.New(t, "--gpus=1", "--model="+model)
			labels := simulated(t, n)
			labels["gpu.product"], labels["gpu.family"] = want[0], want[1]
			labels["gpu.compute.major"], labels["gpu.compute.minor"], labels["mig.capable"] = want[2], want[3], want[4]
			start(t, n).has(labels)
		})
	}
}
