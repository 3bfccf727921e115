/* Reads a GPU in two processes while a third process writes it without pause.
 * Every copy must come from one write. The written values are meaningless, and
 * sim_open would reject them, so the readers open the file first. Argument: the
 * state file. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "simstate.h"

#define WRITES 200000

/* read_whole opens the file, reports this on the descriptor opened, reads until
 * the last write, and returns whether a copy mixed two writes. */
static int read_whole(const char *path, int opened)
{
	union {
		struct sim_gpu gpu;
		uint64_t word[sizeof(struct sim_gpu) / 8];
	} copy;
	struct sim *sim;
	int torn = 0;

	if (sim_open(path, &sim) != SIM_OK || write(opened, "", 1) != 1)
		return 1;
	do {
		sim_read_gpu(sim, 0, &copy.gpu);
		for (size_t i = 1; i < sizeof(copy) / 8; i++)
			torn += copy.word[i] != copy.word[0];
	} while (copy.word[0] != WRITES);
	return torn != 0;
}

int main(int argc, char **argv)
{
	uint64_t words[sizeof(struct sim_gpu) / 8] = {0};
	struct sim *sim;
	int status, opened[2];
	char byte;

	if (argc != 2 || sim_open(argv[1], &sim) != SIM_OK || pipe(opened) != 0)
		return 2;
	sim_write_gpu(sim, 0, (struct sim_gpu *)words);
	for (int i = 0; i < 2; i++) {
		if (fork() == 0)
			_exit(read_whole(argv[1], opened[1]));
	}
	close(opened[1]);
	for (int i = 0; i < 2; i++)
		CHECK(read(opened[0], &byte, 1), 1);
	sim_lock(sim);
	for (uint64_t n = 1; n <= WRITES; n++) {
		for (size_t i = 0; i < sizeof(words) / 8; i++)
			words[i] = n;
		sim_write_gpu(sim, 0, (struct sim_gpu *)words);
	}
	sim_unlock(sim);
	while (wait(&status) > 0)
		CHECK(status, 0);
	return failures != 0;
}
