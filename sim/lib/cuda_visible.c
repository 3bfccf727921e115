/* cuda_visible.c: CUDA_VISIBLE_DEVICES. */
#include "cuda_driver.h"

#include <stdlib.h>
#include <string.h>

/* chosen returns the place in gpu of the one that a word names, by its index
 * or the beginning of its UUID; -1 if there is none, or more than one. */
static int chosen(const char *word, size_t length, const struct sim_gpu *gpu, uint32_t n)
{
	int found = -1;
	char *end;
	unsigned long index = strtoul(word, &end, 10);

	if (length > 0 && end == word + length && *word != '-')
		return index < n ? (int)index : -1;
	if (length <= strlen("GPU-"))
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		if (strncmp(gpu[i].uuid, word, length) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

/* cuda_visible keeps those of n GPUs that the environment names, in its order,
 * and returns how many they are. The list ends at the first word that names
 * none; one named twice makes it empty. */
uint32_t cuda_visible(struct sim_gpu gpu[SIM_MAX_GPUS], uint32_t n)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	struct sim_gpu kept[SIM_MAX_GPUS];
	bool taken[SIM_MAX_GPUS] = {false};
	uint32_t count = 0;

	if (list == NULL)
		return n;
	for (;;) {
		size_t length = strcspn(list, ",");
		int i = chosen(list, length, gpu, n);
		if (i < 0)
			break;
		if (taken[i])
			return 0;
		taken[i] = true;
		kept[count++] = gpu[i];
		list += length;
		if (*list++ == '\0')
			break;
	}
	memcpy(gpu, kept, count * sizeof(gpu[0]));
	return count;
}
