// A stand-in for a file without headers of the kernel.
extern const char sim_nvlink[];
const char sim_nvlink[] = "nvlink";
