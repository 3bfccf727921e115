module outrigger.dev/agents/mig-manager

go 1.26.0

// The number of processors is not read again: an agent at rest should rest.
godebug updatemaxprocs=0

require (
	github.com/google/go-cmp v0.7.0
	outrigger.dev/pkg v0.0.0
)

require go.yaml.in/yaml/v3 v3.0.5

require (
	go.uber.org/goleak v1.3.0
	gotest.tools/v3 v3.5.2
)

require (
	github.com/NVIDIA/go-nvml v0.13.3-0 // indirect
	github.com/cyphar/filepath-securejoin v0.7.0 // indirect
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace outrigger.dev/pkg => ../../pkg
