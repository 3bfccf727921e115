package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// required returns the version of a module that a go.mod of the repository requires, without its v.
func required(t *testing.T, folder, module string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^(?:\t|require )` + regexp.QuoteMeta(module) + ` v(\S+)`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s/go.mod does not require %s", folder, module)
	}
	return strings.TrimSuffix(string(m[1]), "+incompatible")
}

// checkedVersions returns the versions of Kubernetes with whose schemas the charts are compared, the
// oldest first.
func checkedVersions(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository(t), "test/e2e/schemas/testdata/v*.json.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find schemas: %v, %v", files, err)
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "v"), ".json.gz")
	}
	return files
}

// TestThePagesNameTheVersionsThatRun compares the pages with the versions that the tests build. The
// versions of Docker, Podman and containerd from Debian are those of the machine, and not compared.
func TestThePagesNameTheVersionsThatRun(t *testing.T) {
	component := func(name, module string) string {
		return required(t, "test/cluster/components/"+name, module)
	}
	kubernetes := component("kubernetes", "k8s.io/kubernetes")
	crio := component("crio", "github.com/cri-o/cri-o")
	docker := fmt.Sprintf("`moby/moby` v%s with the client %s", component("docker", "github.com/moby/moby/v2"), component("docker", "github.com/docker/cli"))
	checked := checkedVersions(t)
	newest := checked[len(checked)-1]
	containerd := component("containerd", "github.com/containerd/containerd/v2")
	minor := func(version string) string { return version[:strings.LastIndex(version, ".")] }
	for page, wants := range map[string][]string{
		"docs/support.md": {
			"| " + kubernetes + " | run |",
			"with etcd " + component("kubernetes", "go.etcd.io/etcd/server/v3") + ";",
			"| " + strings.Join(checked[:len(checked)-1], ", ") + " | checked |",
			"and of " + newest + " |",
			fmt.Sprintf("| containerd %s with runc %s | run |", containerd, component("runc", "github.com/opencontainers/runc")),
			"| CRI-O " + crio + " | run |",
			docker + " | run |",
			"| CDI specs of NVIDIA's container toolkit | " + required(t, "test/nvcdi", "github.com/NVIDIA/nvidia-container-toolkit") + " | run",
			"| Node Feature Discovery | " + component("nfd", "sigs.k8s.io/node-feature-discovery") + " | run |",
		},
		"docs/container-engines.md": {"| CRI-O | " + crio + ",", docker + ",", "| containerd | " + minor(containerd) + ", on the test cluster |"},
		"docs/upgrade.md":           {"--kube-version v" + kubernetes + " >new.yaml"},
		"CHANGELOG.md":              {"Tests run on Kubernetes " + kubernetes + " "},
		"README.md":                 {"| Kubernetes | " + minor(checked[0]) + " to " + minor(newest) + "."},
	} {
		text, err := os.ReadFile(filepath.Join(repository(t), page))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q: the tests build this version", page, want)
			}
		}
	}
	if kubernetes != newest {
		t.Errorf("the test cluster has Kubernetes %s, the newest schemas are those of %s", kubernetes, newest)
	}
}
