// A stand-in for a file without headers of the kernel.
extern const char sim_rmapi[];
const char sim_rmapi[] = "rmapi";
