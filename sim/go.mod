module outrigger.dev/sim

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/urfave/cli/v2 v2.27.7
	golang.org/x/sys v0.49.0
	gotest.tools/v3 v3.5.2
)

require github.com/stretchr/testify v1.12.1 // indirect

require (
	github.com/NVIDIA/go-nvml v0.13.3-0
	github.com/cpuguy83/go-md2man/v2 v2.0.7 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/xrash/smetrics v0.0.0-20240521201337-686a1a2994c1 // indirect
)

require outrigger.dev/pkg v0.0.0

replace outrigger.dev/pkg => ../pkg
