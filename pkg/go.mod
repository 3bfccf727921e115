module outrigger.dev/pkg

go 1.26.0
