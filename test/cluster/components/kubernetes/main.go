// Command kubernetes contains every part of a Kubernetes cluster in one binary: etcd, the control
// plane, the kubelet and kube-proxy. The parts share most of their packages, so one binary is the
// cheapest way to build them. Only kubectl, which tests start often, is a separate program.
//
// The first argument selects the part, which gets the other arguments unchanged.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client and workqueue metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	parts := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllermanager.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
		"kube-proxy":              proxy.NewProxyCommand,
	}
	if len(os.Args) < 2 {
		usage(parts)
	}
	name := os.Args[1]
	if name == "etcd" {
		etcdmain.Main(os.Args[1:])
		return
	}
	command, ok := parts[name]
	if !ok {
		usage(parts)
	}
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command()))
}

// usage prints the names of the parts and ends the process.
func usage(parts map[string]func() *cobra.Command) {
	names := []string{"etcd"}
	for name := range parts {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: kubernetes {%s} [ARGUMENT...]\n", strings.Join(names, "|"))
	os.Exit(2)
}
