/* cuda_visible.c: CUDA_VISIBLE_DEVICES, and how many MIG devices a process gets.
 * MIG user guide, "CUDA Device Enumeration". */
#include "cuda_driver.h"

#include <stdlib.h>
#include <string.h>

/* A word of the list. */
struct word {
	const char *text;
	size_t length;
};

static bool begins(const char *uuid, struct word word)
{
	return strncmp(uuid, word.text, word.length) == 0;
}

/* matches reports whether a word is the beginning of the UUID of a choice. The
 * UUID of a divided GPU stands for its first instance. */
static bool matches(const struct choice *c, struct word word)
{
	return (c->first && begins(c->gpu.uuid, word)) || (c->ci.generation != 0 && begins(c->ci.uuid, word));
}

/* numbered returns the choice with an index. All instances of a GPU have one index,
 * which stands for the first instance. */
static int numbered(const struct choice *choice, uint32_t n, unsigned long index)
{
	for (uint32_t i = 0; i < n; i++) {
		if (choice[i].first && index-- == 0)
			return (int)i;
	}
	return -1;
}

/* by_place finds an instance in the form of drivers before 470:
 * MIG-<UUID of the GPU>/<GPU instance>/<compute instance>. */
static int by_place(const struct choice *choice, uint32_t n, struct word word)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct choice *c = &choice[i];
		size_t length = strlen(c->gpu.uuid);
		char *end;
		if (c->ci.generation == 0 || strncmp(word.text + strlen("MIG-"), c->gpu.uuid, length) != 0)
			continue;
		const char *at = word.text + strlen("MIG-") + length;
		if (*at != '/' || strtoul(at + 1, &end, 10) != c->ci.gi || *end != '/')
			continue;
		if (strtoul(end + 1, &end, 10) == c->ci.id && end == word.text + word.length)
			return (int)i;
	}
	return -1;
}

/* chosen returns the choice that a word names, by its index or the beginning of
 * its UUID. It returns -1 if the word names no choice, or several. */
static int chosen(struct word word, const struct choice *choice, uint32_t n)
{
	int found = -1;
	char *end;
	unsigned long index = strtoul(word.text, &end, 10);

	if (word.length > 0 && end == word.text + word.length && *word.text != '-')
		return numbered(choice, n, index);
	if (word.length <= strlen("GPU-"))
		return -1;
	if (strncmp(word.text, "MIG-GPU-", strlen("MIG-GPU-")) == 0)
		return by_place(choice, n, word);
	for (uint32_t i = 0; i < n; i++) {
		if (!matches(&choice[i], word))
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

/* named copies the choices that list names to kept, in the order of list, and
 * returns their number. The list ends at the first word that names no choice. If
 * a choice is named twice, named returns 0. */
static uint32_t named(const char *list, const struct choice *choice, uint32_t n, struct choice *kept)
{
	bool taken[MAX_CHOICES] = {false};
	uint32_t count = 0;

	for (;;) {
		struct word word = {list, strcspn(list, ",")};
		int i = chosen(word, choice, n);
		if (i < 0)
			return count;
		if (taken[i])
			return 0;
		taken[i] = true;
		kept[count++] = choice[i];
		list += word.length;
		if (*list++ == '\0')
			return count;
	}
}

/* cuda_visible reduces the n choices to the devices of the process, and returns
 * their number. These are the choices that CUDA_VISIBLE_DEVICES names, or else
 * all. If one of them is a compute instance, it is the only device. */
uint32_t cuda_visible(struct choice *choice, uint32_t n)
{
	static struct choice kept[MAX_CHOICES]; /* guarded by the lock; too large for a stack */
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	uint32_t count = 0;

	if (list != NULL)
		count = named(list, choice, n, kept);
	for (uint32_t i = 0; i < n && list == NULL; i++) {
		if (choice[i].first)
			kept[count++] = choice[i];
	}
	for (uint32_t i = 0; i < count; i++) {
		if (kept[i].ci.generation != 0) {
			kept[0] = kept[i];
			count = 1;
		}
	}
	memcpy(choice, kept, count * sizeof(choice[0]));
	return count;
}
