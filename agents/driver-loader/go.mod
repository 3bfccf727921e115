module outrigger.dev/agents/driver-loader

go 1.26.0

require (
	github.com/cyphar/filepath-securejoin v0.7.0
	github.com/klauspost/compress v1.20.1
	github.com/ulikunitz/xz v0.5.17
	golang.org/x/sys v0.49.0
	outrigger.dev/pkg v0.0.0
)

require (
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
require outrigger.dev/pkg v0.0.0

require (
	golang.org/x/sys v0.49.0 // indirect
)

replace outrigger.dev/pkg => ../../pkg
