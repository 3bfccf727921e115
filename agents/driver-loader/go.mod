module outrigger.dev/agents/driver-loader

go 1.26.0
