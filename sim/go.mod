module outrigger.dev/sim

go 1.26.0
