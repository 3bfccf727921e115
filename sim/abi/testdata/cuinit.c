/* Prints what cuInit answers, and how many devices there are. */
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
