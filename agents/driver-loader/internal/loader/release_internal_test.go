package loader

import "testing"

func TestReleasesOfKernelsAreCompared(t *testing.T) {
	for _, order := range [][]string{
		{"6.1.0-9-amd64", "6.1.0-10-amd64", "6.2.0-1-amd64", "10.0.0-1-amd64"},
		{"5.14.0-362.8.1.el9_3.x86_64", "5.14.0-362.24.1.el9_3.x86_64", "5.14.0-427.el9.x86_64", "6.12.0-55.el10.x86_64"},
		{"4.18.0-513.24.1.el8_9.x86_64", "4.18.0-553.el8_10.x86_64", "4.18.0-553.5.1.el8_10.x86_64", "4.18.0-553.44.1.el8_10.x86_64"},
		{"6.8.0-49-generic", "6.8.0-50-generic", "6.8.0-100-generic"},
		{"6.4.0-150600.23.7-default", "6.4.0-150600.23.17-default", "6.4.0-150700.53.3-default"},
		{"6.12.43+deb13-amd64", "6.12.57+deb13-amd64", "6.12.57+deb13.1-amd64"},
		{"6.8.0", "6.8.1"},
	} {
		for i, a := range order {
			for j, b := range order {
				if got := compareReleases(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
					t.Errorf("compareReleases(%q, %q) = %d", a, b, got)
				}
			}
		}
	}
}
