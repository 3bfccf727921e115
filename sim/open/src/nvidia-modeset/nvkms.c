// A stand-in for a file without headers of the kernel.
extern const char sim_nvkms[];
const char sim_nvkms[] = "nvkms";
