package endurance

import (
	"math/rand/v2"
	"testing"
)

func TestTrend(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := func() float64 { return r.Float64() * 0.6 }
	for name, test := range map[string]struct {
		sample func(i int) float64 // of 40
		grows  bool
	}{
		"noise is not a leak":                            {func(int) float64 { return 20 + noise() }, false},
		"one step is not a leak":                         {func(i int) float64 { return 20 + noise() + float64(min(i, 1)) }, false},
		"released memory is not a leak":                  {func(i int) float64 { return 22 - float64(i)/20 + noise() }, false},
		"30 bytes of each of 100,000 calls are a leak":   {func(i int) float64 { return 20 + noise() + 30e5/(1<<20)*float64(i)/40 }, true},
		"a leak that begins in the second half is found": {func(i int) float64 { return 20 + noise() + float64(max(0, i-20))/10 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			samples := make([]float64, 40)
			for i := range samples {
				samples[i] = test.sample(i)
			}
			got := trendOf(samples)
			if err := got.check(); (err != nil) != test.grows {
				t.Errorf("%+v: %v", got, err)
			}
		})
	}
}
