package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Percent is the largest percentage.
const Percent = 100

// Range is a value that varies between two numbers. They are equal for a constant value.
type Range struct {
	Low  uint32 `json:"low"`
	High uint32 `json:"high"`
}

// ParseRange parses a number such as "75", or a range such as "60-90", from 0 to most.
func ParseRange(text string, most uint32) (Range, error) {
	low, high, varies := strings.Cut(text, "-")
	if !varies {
		high = low
	}
	l, err := strconv.ParseUint(strings.TrimSpace(low), 10, 32)
	h, err2 := strconv.ParseUint(strings.TrimSpace(high), 10, 32)
	if err != nil || err2 != nil || l > h || h > uint64(most) {
		return Range{}, fmt.Errorf("invalid value %q: must be a number such as 75, or a range such as 60-90, from 0 to %d", text, most)
	}
	return Range{Low: uint32(l), High: uint32(h)}, nil
}

// String returns the range in the form of ParseRange.
func (r Range) String() string {
	if r.Low == r.High {
		return strconv.FormatUint(uint64(r.Low), 10)
	}
	return fmt.Sprintf("%d-%d", r.Low, r.High)
}

// ParseMemory parses an amount of memory in the form of Kubernetes, and returns bytes: "20Gi".
func ParseMemory(text string) (uint64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return 0, fmt.Errorf("invalid value %q: must be a quantity such as 20Gi", text)
	}
	bytes, exact := q.AsInt64()
	if !exact {
		return 0, fmt.Errorf("invalid value %q: must be a quantity of whole bytes such as 20Gi", text)
	}
	return uint64(bytes), nil
}
