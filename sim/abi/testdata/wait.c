/* Prints "ready", waits for one event of the first GPU, and prints the XID.
 * Unlike in a Go program, no signals interrupt the wait by chance. */
#include <nvml.h>
#include <stdio.h>

int main(void)
{
	nvmlEventData_t event;
	nvmlEventSet_t set;
	nvmlDevice_t device;

	if (nvmlInit_v2() != NVML_SUCCESS || nvmlEventSetCreate(&set) != NVML_SUCCESS ||
	    nvmlDeviceGetHandleByIndex_v2(0, &device) != NVML_SUCCESS ||
	    nvmlDeviceRegisterEvents(device, nvmlEventTypeXidCriticalError, set) != NVML_SUCCESS)
		return 1;
	puts("ready");
	fflush(stdout);
	if (nvmlEventSetWait_v2(set, &event, 60000) != NVML_SUCCESS)
		return 1;
	printf("%llu\n", event.eventData);
	return 0;
}
