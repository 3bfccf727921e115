package upgrade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Policy is the upgrade policy in the format of driver.upgradePolicy of NVIDIA's chart.
type Policy struct {
	// AutoUpgrade upgrades nodes when the desired driver changes. Otherwise, a node is upgraded if it
	// has RequestedAnnotation.
	AutoUpgrade bool `json:"autoUpgrade"`
	// MaxParallelUpgrades is the number of nodes that are upgraded at once; 0 for the limit of
	// MaxUnavailable only.
	MaxParallelUpgrades int `json:"maxParallelUpgrades"`
	// MaxUnavailable is how many nodes may be unavailable for any reason: a number, or a percentage of the
	// DaemonSet's nodes, rounded up.
	MaxUnavailable Amount `json:"maxUnavailable"`
	// MaxFailures is the number of failed nodes that stops all upgrades to the driver; 0 for no limit.
	// NVIDIA's policy does not have it.
	MaxFailures int `json:"maxFailures"`
	// SkipCordoned leaves a node alone that another user has cordoned before its upgrade began. NVIDIA's policy does not
	// have it.
	SkipCordoned      bool              `json:"skipCordoned"`
	WaitForCompletion WaitForCompletion `json:"waitForCompletion"`
	// PodDeletion is named gpuPodDeletion in NVIDIA's chart, and podDeletion in its API.
	PodDeletion Eviction `json:"gpuPodDeletion"`
	Drain       Drain    `json:"drain"`
}

// WaitForCompletion configures the wait for pods that end without eviction.
type WaitForCompletion struct {
	// PodSelector is a label selector. If empty, the upgrade does not wait.
	PodSelector string `json:"podSelector"`
	// TimeoutSeconds limits the wait; 0 for no limit. The upgrade continues after it.
	TimeoutSeconds int `json:"timeoutSeconds"`
}

// Eviction configures which pods that hold GPUs may be evicted, and for how long.
type Eviction struct {
	// Force also evicts pods without a controller, which are not created again.
	Force bool `json:"force"`
	// TimeoutSeconds limits the eviction; 0 for no limit.
	TimeoutSeconds int `json:"timeoutSeconds"`
	// DeleteEmptyDir also evicts pods that lose the data of an emptyDir.
	DeleteEmptyDir bool `json:"deleteEmptyDir"`
}

// Drain configures the eviction of all pods, which follows a failed eviction of pods that hold GPUs.
type Drain struct {
	Enable bool `json:"enable"`
	// PodSelector restricts the drain to some pods.
	PodSelector string `json:"podSelector"`
	Eviction
}

// Amount is a number of nodes, or a percentage.
type Amount string

// maxPolicy is the largest size of a policy in bytes, and maxNumber its largest number.
const (
	maxPolicy = 64 << 10
	maxNumber = math.MaxInt32
)

// UnmarshalJSON accepts a number or a string.
func (a *Amount) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] != '"' {
		*a = Amount(data)
		return nil
	}
	var s string
	err := json.Unmarshal(data, &s)
	*a = Amount(s)
	return err
}

// Of returns the amount as a number of nodes, if there are total nodes. It is at least 1.
func (a Amount) Of(total int) int {
	if percent, is := strings.CutSuffix(string(a), "%"); is {
		n, _ := strconv.Atoi(percent)
		return max(1, (total*n+99)/100)
	}
	n, _ := strconv.Atoi(string(a))
	return max(1, n)
}

func (a Amount) valid() bool {
	return regexp.MustCompile(`^([0-9]{1,9}|[0-9]{1,3}%)$`).MatchString(string(a))
}

// Default returns the defaults of NVIDIA's chart, with one upgrade at a time.
func Default() Policy {
	const timeout = 300
	return Policy{
		AutoUpgrade: true, MaxParallelUpgrades: 1, MaxUnavailable: "25%", MaxFailures: 1,
		PodDeletion: Eviction{TimeoutSeconds: timeout}, Drain: Drain{Eviction: Eviction{TimeoutSeconds: timeout}},
	}
}

// ParsePolicy parses a policy in JSON. Missing keys have the values of Default. It accepts
// podDeletion as another name of gpuPodDeletion, and rejects unknown keys.
func ParsePolicy(data []byte) (Policy, error) {
	p := Default()
	if len(data) > maxPolicy {
		return p, fmt.Errorf("upgradePolicy has more than %d bytes", maxPolicy)
	}
	given := struct {
		*Policy
		API *Eviction `json:"podDeletion"`
	}{Policy: &p, API: &p.PodDeletion}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&given); err != nil {
		return p, fmt.Errorf("read upgradePolicy: %w", err)
	}
	return p, p.check()
}

func (p Policy) check() error {
	if !p.MaxUnavailable.valid() {
		return fmt.Errorf("upgradePolicy.maxUnavailable is %q: use a number of nodes such as 2, or a percentage such as 25%%", p.MaxUnavailable)
	}
	for key, n := range map[string]int{
		"maxParallelUpgrades": p.MaxParallelUpgrades, "maxFailures": p.MaxFailures,
		"waitForCompletion.timeoutSeconds": p.WaitForCompletion.TimeoutSeconds,
		"gpuPodDeletion.timeoutSeconds":    p.PodDeletion.TimeoutSeconds, "drain.timeoutSeconds": p.Drain.TimeoutSeconds,
	} {
		if n < 0 || n > maxNumber {
			return fmt.Errorf("upgradePolicy.%s is %d: use 0 to %d", key, n, maxNumber)
		}
	}
	for key, selector := range map[string]string{
		"waitForCompletion.podSelector": p.WaitForCompletion.PodSelector, "drain.podSelector": p.Drain.PodSelector,
	} {
		if _, err := labels.Parse(selector); err != nil {
			return fmt.Errorf("upgradePolicy.%s is %q, which is not a label selector: %w", key, selector, err)
		}
	}
	return nil
}
