module outrigger.dev/agents/dcgm-exporter

go 1.26.0

// The number of processors is not read again: an agent at rest should rest.
godebug updatemaxprocs=0

require (
	github.com/google/go-cmp v0.7.0
	k8s.io/kubelet v0.37.2
	outrigger.dev/pkg v0.0.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260825221802-da73d73af1c5 // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace outrigger.dev/pkg => ../../pkg
