// A stand-in for a file without headers of the kernel.
extern const char sim_mem_mgr[];
const char sim_mem_mgr[] = "mem_mgr";
