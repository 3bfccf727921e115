package stack

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
)

// NFDNamespace is the namespace in the manifests of Node Feature Discovery.
const NFDNamespace = "node-feature-discovery"

// PCILabel marks nodes with a PCI device of NVIDIA's. NFD writes it. Without NFD, the cluster
// writes it.
const PCILabel = "feature.node.kubernetes.io/pci-10de.present"

// nfd returns the folder with NFD's programs and manifests.
func (s *Stack) nfd() string { return filepath.Join(s.root, "bin", "cluster-components", "nfd") }

// InstallNFD installs the real Node Feature Discovery with its own manifests, and waits until it
// has labelled all nodes. Call RemoveNFD afterwards.
//
// Once, a master that started right after its CRDs were created did not label any node, for an
// unknown reason. InstallNFD therefore restarts a master that has not labelled all nodes after half
// a minute.
func (s *Stack) InstallNFD(ctx context.Context) error {
	if err := s.LoadNFD(ctx); err != nil {
		return err
	}
	if _, err := s.Kubectl(ctx, "apply", "--server-side", "-k", s.nfd()); err != nil {
		return err
	}
	if err := s.rolledOut(ctx, "deployment/nfd-master", "daemonset/nfd-worker"); err != nil {
		return err
	}
	if err := s.labelledByNFD(ctx, "30s"); err == nil {
		return nil
	}
	if _, err := s.Kubectl(ctx, "-n", NFDNamespace, "rollout", "restart", "deployment/nfd-master"); err != nil {
		return err
	}
	if err := s.rolledOut(ctx, "deployment/nfd-master"); err != nil {
		return err
	}
	return s.labelledByNFD(ctx, "90s")
}

// LoadNFD imports the images outrigger.dev/nfd-master:1 and nfd-worker:1 on all nodes, once per
// cluster.
func (s *Stack) LoadNFD(ctx context.Context) error {
	if s.nfdLoaded {
		return nil
	}
	for _, program := range []string{"nfd-master", "nfd-worker"} {
		if err := s.LoadProgram(ctx, "outrigger.dev/"+program+":1", filepath.Join(s.nfd(), program)); err != nil {
			return err
		}
	}
	s.nfdLoaded = true
	return nil
}

// rolledOut waits until the pods of these workloads of NFD are ready.
func (s *Stack) rolledOut(ctx context.Context, parts ...string) error {
	for _, part := range parts {
		if _, err := s.Kubectl(ctx, "-n", NFDNamespace, "rollout", "status", part, "--timeout=4m"); err != nil {
			pods, _ := s.Kubectl(ctx, "-n", NFDNamespace, "describe", "pods")
			return errors.Join(err, errors.New(pods))
		}
	}
	return nil
}

// labelledByNFD waits until every node has a label that NFD writes on every machine.
func (s *Stack) labelledByNFD(ctx context.Context, limit string) error {
	_, err := s.Kubectl(ctx, "wait", "nodes", "--all", "--timeout="+limit,
		`--for=jsonpath={.metadata.labels.feature\.node\.kubernetes\.io/kernel-version\.full}`)
	return err
}

// RemoveNFD removes the objects of InstallNFD, and all fields that NFD wrote to Nodes.
func (s *Stack) RemoveNFD(ctx context.Context) error {
	for _, args := range [][]string{
		{"-n", NFDNamespace, "delete", "daemonset", "nfd-worker", "--cascade=foreground", "--wait"},
		{"delete", "nodefeatures", "--all", "--all-namespaces"},
		prune(),
		{"delete", "-k", s.nfd(), "--ignore-not-found", "--wait"},
	} {
		_, err := s.Kubectl(ctx, args...)
		for try := 1; err != nil && slices.Equal(args, prune()) && try < pruneTries; try++ {
			_, err = s.Kubectl(ctx, args...)
		}
		if err != nil {
			return err
		}
	}
	return s.MarkGPUNodes(ctx)
}

// MarkGPUNodes sets the cluster's label PCILabel on GPU nodes again. NFD removes it together with
// its own labels.
func (s *Stack) MarkGPUNodes(ctx context.Context) error {
	_, err := s.Kubectl(ctx, append([]string{"label", "--overwrite", "node"}, append(s.GPUNodes(), PCILabel+"=true")...)...)
	return err
}

// pruneTries is how often "nfd-master -prune" may conflict with the running master, which writes
// the same Nodes.
const pruneTries = 10

func prune() []string {
	return []string{"-n", NFDNamespace, "exec", "deployment/nfd-master", "--", "nfd-master", "-prune"}
}
