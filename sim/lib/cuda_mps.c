/* cuda_mps.c: this process as a client of MPS, NVIDIA's Multi-Process Service.
 *
 * If a control daemon serves the socket "control" of the pipe directory, the process
 * sends it one line, and gets one line: the devices of its server, or an error. The
 * process is a client as long as the connection exists. The server uses the GPUs
 * for all clients, so a compute mode that admits one process admits them, too. */
#include "cuda_driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEFAULT_DIRECTORY "/tmp/nvidia-mps"

/* A device of the server. */
struct share {
	char uuid[48];
	uint64_t limit; /* bytes that a client may allocate; 0: no limit */
};

/* Guarded by the library's lock. */
static struct {
	int fd; /* -1: not a client */
	uint32_t count;
	struct share share[SIM_MAX_GPUS];
} mps = {.fd = -1};

/* dial connects to the daemon. It returns -1 if there is none. The program then runs
 * without MPS. */
static int dial(void)
{
	const char *directory = getenv("CUDA_MPS_PIPE_DIRECTORY");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int n, fd;

	if (directory == NULL || *directory == '\0')
		directory = DEFAULT_DIRECTORY;
	n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", directory);
	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* ask sends a line and reads the answer, without its end of line. */
static bool ask(int fd, const char *line, char *answer, size_t size)
{
	size_t length = 0;

	if (send(fd, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
		return false;
	while (length + 1 < size) {
		ssize_t n = recv(fd, answer + length, size - 1 - length, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		length += (size_t)n;
		if (answer[length - 1] == '\n') {
			answer[length - 1] = '\0';
			return true;
		}
	}
	return false;
}

/* accepted reads the devices of an answer: "ok UUID=LIMIT UUID=LIMIT…". Another
 * answer is "error CODE TEXT". */
static CUresult accepted(char *answer)
{
	unsigned int code;
	char *rest, *word = strtok_r(answer, " ", &rest);

	if (word != NULL && strcmp(word, "error") == 0 && sscanf(rest, "%u", &code) == 1)
		return (CUresult)code;
	if (word == NULL || strcmp(word, "ok") != 0)
		return CUDA_ERROR_MPS_CONNECTION_FAILED;
	mps.count = 0;
	while (mps.count < SIM_MAX_GPUS && (word = strtok_r(NULL, " ", &rest)) != NULL) {
		struct share *s = &mps.share[mps.count];
		unsigned long long limit;
		if (sscanf(word, "%47[^=]=%llu", s->uuid, &limit) != 2)
			return CUDA_ERROR_MPS_CONNECTION_FAILED;
		s->limit = limit;
		mps.count++;
	}
	return CUDA_SUCCESS;
}

/* mps_connect makes the process a client if there is a control daemon. It waits
 * while the server serves processes of another user. */
CUresult mps_connect(void)
{
	char answer[SIM_MAX_GPUS * 80];
	CUresult result = CUDA_ERROR_MPS_CONNECTION_FAILED;
	int fd = dial();

	if (fd < 0)
		return CUDA_SUCCESS;
	if (ask(fd, "client\n", answer, sizeof(answer)))
		result = accepted(answer);
	if (result == CUDA_SUCCESS)
		mps.fd = fd;
	else
		close(fd);
	return result;
}

bool mps_client(void)
{
	return mps.fd >= 0;
}

/* mps_check returns an error if the server of this client has ended. */
CUresult mps_check(void)
{
	char byte;

	if (mps.fd < 0)
		return CUDA_SUCCESS;
	if (recv(mps.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR))
		return CUDA_SUCCESS;
	return CUDA_ERROR_MPS_RPC_FAILURE;
}

void mps_close(void)
{
	if (mps.fd >= 0)
		close(mps.fd);
	mps.fd = -1;
}

static bool has_uuid(const struct choice *choice, const char *uuid)
{
	return strcmp(choice->ci.generation != 0 ? choice->ci.uuid : choice->gpu.uuid, uuid) == 0;
}

/* mps_visible reduces the choices of a client to the devices of its server, in
 * the server's order, and returns their number. */
uint32_t mps_visible(struct choice *choice, uint32_t n)
{
	static struct choice kept[SIM_MAX_GPUS]; /* guarded by the lock; too large for a stack */
	uint32_t count = 0;

	if (mps.fd < 0)
		return n;
	for (uint32_t s = 0; s < mps.count; s++) {
		for (uint32_t i = 0; i < n; i++) {
			if (!has_uuid(&choice[i], mps.share[s].uuid))
				continue;
			kept[count] = choice[i];
			kept[count].limit = mps.share[s].limit;
			kept[count++].first = true; /* each has an index */
			break;
		}
	}
	memcpy(choice, kept, count * sizeof(choice[0]));
	return count;
}
