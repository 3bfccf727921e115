module outrigger.dev/samples/vectoradd

go 1.26.0
