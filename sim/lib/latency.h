/* latency.h: the time that a call takes. */
#ifndef LATENCY_H
#define LATENCY_H

#include <stdint.h>

void latency_pass(uint64_t ns);

#endif
