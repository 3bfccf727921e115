// A stand-in for a file without headers of the kernel.
extern const char sim_gpu_mgr[];
const char sim_gpu_mgr[] = "gpu_mgr";
