/* Prints the result of cuInit, and the devices, one per line: name, MiB, SMs and
 * the beginning of the UUID. With the argument "hold", it makes a context on the
 * first device, allocates 1 MiB of memory, prints how many MiB are free, and
 * keeps the memory until its stdin ends. */
#include <stdio.h>
#include <string.h>

#include "../../lib/cuda_driver.h"

CUresult cuInit(unsigned int);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceTotalMem_v2(size_t *, CUdevice);
CUresult cuDeviceGetAttribute(int *, int, CUdevice);
CUresult cuDeviceGetUuid_v2(CUuuid *, CUdevice);
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuCtxSynchronize(void);
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);

static void describe(CUdevice d)
{
	char name[160] = "";
	size_t bytes = 0;
	CUuuid uuid = {0};
	int sms = 0;

	cuDeviceGetName(name, sizeof(name), d);
	cuDeviceTotalMem_v2(&bytes, d);
	cuDeviceGetAttribute(&sms, 16, d);
	cuDeviceGetUuid_v2(&uuid, d);
	printf("%s, %zu MiB, %d SMs, %02x%02x%02x%02x\n", name, bytes >> 20, sms, (unsigned char)uuid.bytes[0],
	       (unsigned char)uuid.bytes[1], (unsigned char)uuid.bytes[2], (unsigned char)uuid.bytes[3]);
}

static void hold(void)
{
	size_t left = 0, total = 0;
	CUcontext context;
	CUdeviceptr address;

	int created = cuCtxCreate_v2(&context, 0, 0);
	int allocated = cuMemAlloc_v2(&address, 1 << 20);
	cuMemGetInfo_v2(&left, &total);
	printf("held: %d %d %zu\n", created, allocated, left >> 20);
	fflush(stdout);
	while (getchar() != EOF)
		;
	printf("synchronized: %d\n", cuCtxSynchronize());
	printf("destroyed: %d\n", cuCtxDestroy_v2(context));
}

int main(int argc, char **argv)
{
	int count = 0, result = cuInit(0);

	cuDeviceGetCount(&count);
	printf("%d\n", result);
	for (int i = 0; i < count; i++)
		describe(i);
	if (argc > 1 && strcmp(argv[1], "hold") == 0)
		hold();
	return 0;
}
