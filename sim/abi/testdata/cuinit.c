/* Prints the result of cuInit, and the number of devices. */
#include <stdio.h>

int cuInit(unsigned int);
int cuDeviceGetCount(int *);

int main(void)
{
	int count = 0, result = cuInit(0);

	cuDeviceGetCount(&count);
	printf("%d %d\n", result, count);
	return 0;
}
