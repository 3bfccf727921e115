package main

// NVIDIA's runtime gives some GPUs only to containers that may have CAP_SYS_ADMIN. This program
// needs no capabilities. It drops all of them before Go starts its threads, because Linux keeps
// capabilities per thread.

/*
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((constructor)) static void give_up_capabilities(void) {
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	if (syscall(SYS_capset, &header, none) != 0) {
		static const char message[] = "vectoradd: give up capabilities: capset failed: check the container's seccomp profile\n";
		(void)!write(2, message, sizeof message - 1);
		_exit(1);
	}
}
*/
import "C"
