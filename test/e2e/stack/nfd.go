package stack

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
)

// NFDNamespace is where the manifests of Node Feature Discovery put it.
const NFDNamespace = "node-feature-discovery"

// PCILabel marks nodes with a PCI device of NVIDIA's. NFD writes it, and the
// cluster does where there is no NFD.
const PCILabel = "feature.node.kubernetes.io/pci-10de.present"

// nfd is the folder of its programs and manifests.
func (s *Stack) nfd() string { return filepath.Join(s.root, "bin", "cluster-components", "nfd") }

// InstallNFD installs the real Node Feature Discovery by its own manifests, and
// waits until it has labelled all nodes. RemoveNFD is to follow.
//
// Its master was seen once to start right after its CRDs were made and then to
// label no node, for a reason that is not known; one that has not labelled all nodes
// after half a minute is started anew.
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

// LoadNFD imports the images outrigger.dev/nfd-master:1 and nfd-worker:1 on all nodes, once in
// the life of a cluster.
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

// rolledOut waits until the pods of these parts of NFD are ready.
func (s *Stack) rolledOut(ctx context.Context, parts ...string) error {
	for _, part := range parts {
		if _, err := s.Kubectl(ctx, "-n", NFDNamespace, "rollout", "status", part, "--timeout=4m"); err != nil {
			pods, _ := s.Kubectl(ctx, "-n", NFDNamespace, "describe", "pods")
			return errors.Join(err, errors.New(pods))
		}
	}
	return nil
}

// labelledByNFD waits until every node has a label that NFD finds anywhere.
func (s *Stack) labelledByNFD(ctx context.Context, limit string) error {
	_, err := s.Kubectl(ctx, "wait", "nodes", "--all", "--timeout="+limit,
		`--for=jsonpath={.metadata.labels.feature\.node\.kubernetes\.io/kernel-version\.full}`)
	return err
}

// RemoveNFD removes what InstallNFD made, and all that it wrote to Nodes.
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

// MarkGPUNodes gives GPU nodes the label by which the cluster marks them. NFD takes it with
// its own labels.
func (s *Stack) MarkGPUNodes(ctx context.Context) error {
	_, err := s.Kubectl(ctx, append([]string{"label", "--overwrite", "node"}, append(s.GPUNodes(), PCILabel+"=true")...)...)
	return err
}

// pruneTries is how often NFD may lose against its own master, which writes the
// same Nodes while it removes what it wrote.
const pruneTries = 10

func prune() []string {
	return []string{"-n", NFDNamespace, "exec", "deployment/nfd-master", "--", "nfd-master", "-prune"}
}
