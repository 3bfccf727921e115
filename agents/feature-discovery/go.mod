module outrigger.dev/agents/feature-discovery

go 1.26.0

require (
	github.com/cyphar/filepath-securejoin v0.7.0
	github.com/google/go-cmp v0.7.0
	github.com/prometheus/client_golang v1.25.0
	github.com/urfave/cli/v2 v2.27.7
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
	outrigger.dev/pkg v0.0.0
)

replace outrigger.dev/pkg => ../../pkg
