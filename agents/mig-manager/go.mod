module outrigger.dev/agents/mig-manager

go 1.26.0

// The number of processors is not read again: an agent at rest should rest.
godebug updatemaxprocs=0

require outrigger.dev/pkg v0.0.0

require go.yaml.in/yaml/v3 v3.0.5

replace outrigger.dev/pkg => ../../pkg
