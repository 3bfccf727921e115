module outrigger.dev/images

go 1.26.0
