/* check.h: CHECK compares the result of a call, and continues after a failure. */
#include <stdio.h>

static int failures;

#define CHECK(call, want)                                                      \
	do {                                                                   \
		long got_ = (long)(call);                                      \
		if (got_ != (long)(want)) {                                    \
			printf("line %d: %s is %ld, want %ld\n", __LINE__, #call, got_, (long)(want)); \
			failures++;                                            \
		}                                                              \
	} while (0)
