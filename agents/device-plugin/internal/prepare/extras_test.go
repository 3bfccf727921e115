package prepare_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestExtras(t *testing.T) {
	all := []string{"nvidia-caps-imex-channels/channel0", "nvidia-fs0", "infiniband/uverbs0", "gdrdrv"}
	gpus := []string{"gpu=all", "gpu=" + id(0), "gpu=" + id(1)}
	for name, c := range map[string]struct {
		nodes   []string
		change  []func(*config.Config)
		want    inventory.Prepared
		resolve []string
		// warned are parts of the log, each of which is there once.
		warned []string
	}{
		"all present": {
			nodes: all, change: []func(*config.Config){extras},
			want:    inventory.Prepared{IMEXChannels: []int{0}, CDIClasses: []string{"imex-channel", "gdrcopy", "gds", "mofed"}},
			resolve: append([]string{"imex-channel=0", "gdrcopy=all", "gds=all", "mofed=all"}, gpus...),
		},
		"all present, and none enabled": {nodes: all, resolve: gpus},
		"none present": {
			change: []func(*config.Config){extras}, resolve: gpus,
			warned: []string{
				"/run/nvidia/driver/dev/nvidia-caps-imex-channels/channel0 is not a character device", "NVreg_CreateImexChannel0=1",
				"gds-enabled: there is no device node nvidia-fs* in /run/nvidia/driver/dev and /dev", "infiniband/uverbs*", "gdrdrv in",
			},
		},
		"one present": {
			nodes: []string{"gdrdrv"}, change: []func(*config.Config){extras},
			want:    inventory.Prepared{CDIClasses: []string{"gdrcopy"}},
			resolve: append([]string{"gdrcopy=all"}, gpus...),
			warned:  []string{"channel0", "nvidia-fs*", "infiniband/uverbs*"},
		},
		"without CDI there are channels and no classes": {
			nodes: all, change: []func(*config.Config){extras, envvar}, want: inventory.Prepared{IMEXChannels: []int{0}},
		},
		"without CDI, what is missing is reported too": {
			change: []func(*config.Config){extras, envvar}, warned: []string{"channel0 is", "nvidia-fs*", "infiniband/uverbs*", "gdrdrv in"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, n := range c.nodes {
				r.node("dev/" + n)
			}
			var got inventory.Prepared
			for range 3 {
				got = r.prepare(gputest.Node(gputest.A100, 2), r.config(c.change...))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("prepared (-want +got):\n%s", d)
			}
			r.resolve(name, c.resolve...)
			log := r.log.String()
			for _, part := range c.warned {
				if strings.Count(log, part) != 1 {
					t.Errorf("log has %q %d times, want once:\n%s", part, strings.Count(log, part), log)
				}
			}
			if len(c.warned) == 0 && strings.Contains(log, "WARN") {
				t.Errorf("log warns:\n%s", log)
			}
		})
	}
}

func TestChannelThatIsRequired(t *testing.T) {
	required := func(c *config.Config) { c.IMEX = config.IMEX{Channels: []int{0}, Required: true} }
	for name, change := range map[string][]func(*config.Config){
		"with CDI":    {required},
		"without CDI": {required, envvar},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			n := gputest.Node(gputest.A100, 2)
			c := r.config(change...)
			if _, err := r.preparer.Scan(c)(n); err == nil || !strings.Contains(err.Error(), "channel0") || !strings.Contains(err.Error(), "unset imex-required") {
				t.Errorf("error is %v, want that the channel is missing", err)
			}
			r.node("dev/nvidia-caps-imex-channels/channel0")
			if got := r.prepare(n, c).IMEXChannels; len(got) != 1 {
				t.Errorf("channels are %v", got)
			}
		})
	}
}

func TestExtrasThatAppearAndDisappear(t *testing.T) {
	r := newRig(t)
	n := gputest.Node(gputest.A100, 1)
	gpus := []string{"gpu=all", "gpu=" + id(0)}
	r.settle()
	r.prepare(n, r.config(extras))
	if r.preparer.Outdated() {
		t.Error("outdated although nothing has changed")
	}
	r.node("dev/gdrdrv")
	if !r.preparer.Outdated() {
		t.Error("Outdated() = false after a device has appeared")
	}
	if got := r.prepare(n, r.config(extras)).CDIClasses; len(got) != 1 {
		t.Errorf("classes are %v", got)
	}
	r.resolve("after it has appeared", append([]string{"gdrcopy=all"}, gpus...)...)
	if got := r.prepare(n, r.config()).CDIClasses; len(got) > 0 {
		t.Errorf("classes are %v after it was disabled", got)
	}
	r.resolve("for containers that have it, after it was disabled", append([]string{"gdrcopy=all"}, gpus...)...)
	r.remove("dev/gdrdrv")
	r.prepare(n, r.config())
	r.resolve("after it was removed", gpus...)
}
