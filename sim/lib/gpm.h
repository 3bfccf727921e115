/* gpm.h: the counters of a GPU or a GPU instance in a sample. */
#ifndef GPM_H
#define GPM_H

#include "mig.h"

struct nvmlGpmSample_st {
	struct nvmlGpmSample_st *next;
	uint64_t gpu;  /* generation; 0: no sample was taken */
	uint64_t gi;   /* generation; 0: of the whole GPU */
	bool computes; /* the GPU instance has a compute instance that can run work */
	uint64_t us;   /* when */
	struct sim_work work;
	struct sim_flow pcie[2], link[SIM_MAX_LINKS][2]; /* sent, received */
	uint32_t links, encoders, decoders, jpegs, ofas;
};

/* gpm_metric computes one metric from the counters of two samples. */
nvmlReturn_t gpm_metric(unsigned int id, nvmlGpmSample_t from, nvmlGpmSample_t to, double *value);

#endif
