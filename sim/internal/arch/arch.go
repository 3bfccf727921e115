// Package arch has the differences between the processor architectures of simulated nodes.
package arch

// Triple is the name of the architecture in the library folders of Debian and Ubuntu.
const Triple = Kernel + "-linux-gnu"

// Libraries is the library folder of Debian and Ubuntu, without the slash at its beginning.
const Libraries = "usr/lib/" + Triple
