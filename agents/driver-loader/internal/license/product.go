// Package license observes whether the virtual GPUs of a node are licensed. It parses the output of
// the driver's nvidia-smi, because NVML, which also reports licenses, needs C.
package license

import (
	"strings"
	"time"

	"outrigger.dev/pkg/text"
)

const (
	// maxProducts is the largest number of products that are read from an output.
	maxProducts = 256
	// maxText is the largest length of a name or status, in bytes. NVML's have at most 128.
	maxText = 128
)

// Product is a licensed product of a GPU.
type Product struct {
	// GPU is the PCI bus ID, as nvidia-smi writes it.
	GPU string
	// Name is the name of the product, such as "NVIDIA Virtual Compute Server".
	Name string
	// Status is the status in nvidia-smi's words, such as "Unlicensed (Restricted)".
	Status string
	// Expiry is the end of the license. It is zero if the license has no end or the status does not
	// show it.
	Expiry time.Time
}

// Licensed reports whether the product is licensed. An unknown status counts as unlicensed.
func (p Product) Licensed() bool { return p.shortStatus() == "Licensed" }

// shortStatus returns the status without the end of the license.
func (p Product) shortStatus() string {
	word, _, _ := strings.Cut(p.Status, " (Expiry:")
	return word
}

// section is the title of the section about the product of a GPU.
const section = "vGPU Software Licensed Product"

// Parse returns the licensed products in the output of nvidia-smi -q, whose lines are indented by
// section.
func Parse(output string) []Product {
	var products []Product
	gpu, depth := "", -1
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, " \r\n")
		indent := len(line) - len(strings.TrimLeft(line, " "))
		key, value, _ := strings.Cut(strings.TrimSpace(line), " : ")
		key, value = strings.TrimSpace(key), printable(value)
		switch name, is := strings.CutPrefix(key, "GPU "); {
		case is && indent == 0:
			gpu, depth = printable(name), -1
		case key == section:
			depth = indent
		case depth < 0 || indent <= depth:
			depth = -1
		case key == "Product Name" && len(products) < maxProducts:
			products = append(products, Product{GPU: gpu, Name: value})
		case key == "License Status" && len(products) > 0 && products[len(products)-1].GPU == gpu:
			p := &products[len(products)-1]
			p.Status, p.Expiry = value, expiry(value)
		}
	}
	return products
}

func printable(s string) string { return text.Cut(text.Printable(strings.TrimSpace(s)), maxText) }

// expiry returns the time in "Licensed (Expiry: 2026-1-31 9:05:7 GMT)", whose numbers have no leading
// zeros. It returns zero for any other text.
func expiry(status string) time.Time {
	_, rest, _ := strings.Cut(status, "(Expiry: ")
	at, _, found := strings.Cut(rest, " GMT)")
	t, err := time.Parse("2006-1-2 15:4:5", at)
	if !found || err != nil {
		return time.Time{}
	}
	return t
}
