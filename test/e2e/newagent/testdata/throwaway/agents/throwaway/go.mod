module outrigger.dev/agents/throwaway

go 1.26.0

require outrigger.dev/pkg v0.0.0

replace outrigger.dev/pkg => ../../pkg
