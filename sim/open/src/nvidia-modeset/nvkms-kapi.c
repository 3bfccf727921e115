// A stand-in for a file without headers of the kernel.
extern const char sim_nvkms_kapi[];
const char sim_nvkms_kapi[] = "nvkms-kapi";
