/*
 * mig_tables.h: what each product can be divided into. This is the one source
 * for the libraries and for gpu-sim. No include guard: it is data, which its
 * reader gives a form.
 *
 * verified is 1 for a row that was compared with a GPU of the kind, and 0 for
 * one that was not; source says where its figures come from.
 *
 * MIG_BOARD(model, compute slices, memory slices, SMs of a compute slice,
 *           change of mode needs a reset, the driver places from below,
 *           verified, source)
 * MIG_GI(model, profile, id, name, compute slices, memory slices, starts, max,
 *        memory in MiB, SMs, copy engines, decoders, encoders, JPEG, OFA,
 *        media: at most one instance of the GPU may have it, verified, source)
 * MIG_CI(compute slices of the GPU instance, profile, id, compute slices,
 *        starts, max, verified, source)
 *
 * Profiles are numbers of NVML_GPU_INSTANCE_PROFILE_… and
 * NVML_COMPUTE_INSTANCE_PROFILE_…; starts has bit n set for a start at slice n.
 */
#define PUBLISHED "as published by NVIDIA (MIG user guide)"
#define MEASURED "as driver 580.159.04 reports it on such a GPU"
#define REPORTED "as nvidia-smi prints it on such a GPU, in output that users published; places from the MIG user guide"
#define RECALLED "no published figure at hand: as the driver's other profiles suggest"
#define CHOSEN "published as a range or not at all: one value of it was chosen"
#define UNEVEN "published with one decoder and JPEG engine in every profile; more in the larger ones, and SMs, are assumed"
#define COUNTED "follows from the published number of instances"

#define EVERY 0x7f /* 0 1 2 3 4 5 6 */
#define EVEN4 0x55 /* 0 2 4 6 */
#define EVEN3 0x15 /* 0 2 4 */
#define HALF 0x11  /* 0 4 */
#define FIRST 0x01 /* 0 */
#define A30_EVERY 0x0f
#define A30_HALF 0x05

MIG_BOARD("a100-40", 7, 8, 14, 1, 0, 0, PUBLISHED)
MIG_GI("a100-40", 0, 19, "1g.5gb", 1, 1, EVERY, 7, 4864, 14, 1, 0, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a100-40", 7, 20, "1g.5gb+me", 1, 1, EVERY, 1, 4864, 14, 1, 1, 0, 1, 1, 1, 0, PUBLISHED)
MIG_GI("a100-40", 9, 15, "1g.10gb", 1, 2, EVEN4, 4, 9856, 14, 1, 1, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a100-40", 1, 14, "2g.10gb", 2, 2, EVEN3, 3, 9856, 28, 2, 1, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a100-40", 2, 9, "3g.20gb", 3, 4, HALF, 2, 19968, 42, 3, 2, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a100-40", 3, 5, "4g.20gb", 4, 4, FIRST, 1, 19968, 56, 4, 2, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a100-40", 4, 0, "7g.40gb", 7, 8, FIRST, 1, 40192, 98, 7, 5, 0, 1, 1, 0, 0, PUBLISHED)

MIG_BOARD("a100-80", 7, 8, 14, 1, 0, 0, PUBLISHED)
MIG_GI("a100-80", 0, 19, "1g.10gb", 1, 1, EVERY, 7, 9856, 14, 1, 0, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a100-80", 7, 20, "1g.10gb+me", 1, 1, EVERY, 1, 9856, 14, 1, 1, 0, 1, 1, 1, 0, PUBLISHED)
MIG_GI("a100-80", 9, 15, "1g.20gb", 1, 2, EVEN4, 4, 19968, 14, 1, 1, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a100-80", 1, 14, "2g.20gb", 2, 2, EVEN3, 3, 19968, 28, 2, 1, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a100-80", 2, 9, "3g.40gb", 3, 4, HALF, 2, 40192, 42, 3, 2, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a100-80", 3, 5, "4g.40gb", 4, 4, FIRST, 1, 40192, 56, 4, 2, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a100-80", 4, 0, "7g.80gb", 7, 8, FIRST, 1, 80384, 98, 7, 5, 0, 1, 1, 0, 0, PUBLISHED)

MIG_BOARD("a30", 4, 4, 14, 1, 1, 0, PUBLISHED)
MIG_GI("a30", 0, 14, "1g.6gb", 1, 1, A30_EVERY, 4, 5952, 14, 1, 1, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a30", 7, 21, "1g.6gb+me", 1, 1, A30_EVERY, 1, 5952, 14, 1, 1, 0, 1, 1, 1, 0, PUBLISHED)
MIG_GI("a30", 1, 5, "2g.12gb", 2, 2, A30_HALF, 2, 11968, 28, 2, 2, 0, 0, 0, 0, 0, PUBLISHED)
MIG_GI("a30", 8, 6, "2g.12gb+me", 2, 2, A30_HALF, 1, 11968, 28, 2, 2, 0, 1, 1, 1, 0, RECALLED)
MIG_GI("a30", 3, 0, "4g.24gb", 4, 4, FIRST, 1, 24000, 56, 4, 4, 0, 1, 1, 0, 0, PUBLISHED)

MIG_BOARD("h100-80", 7, 8, 16, 0, 0, 0, MEASURED)
MIG_GI("h100-80", 0, 19, "1g.10gb", 1, 1, EVERY, 7, 9984, 16, 1, 1, 0, 1, 0, 0, 0, MEASURED)
MIG_GI("h100-80", 7, 20, "1g.10gb+me", 1, 1, EVERY, 1, 9984, 16, 1, 1, 0, 1, 1, 1, 0, MEASURED)
MIG_GI("h100-80", 9, 15, "1g.20gb", 1, 2, EVEN4, 4, 20096, 26, 1, 1, 0, 1, 0, 0, 0, MEASURED)
MIG_GI("h100-80", 1, 14, "2g.20gb", 2, 2, EVEN3, 3, 20096, 32, 2, 2, 0, 2, 0, 0, 0, MEASURED)
MIG_GI("h100-80", 2, 9, "3g.40gb", 3, 4, HALF, 2, 40448, 60, 3, 3, 0, 3, 0, 0, 0, MEASURED)
MIG_GI("h100-80", 3, 5, "4g.40gb", 4, 4, FIRST, 1, 40448, 64, 4, 4, 0, 4, 0, 0, 0, MEASURED)
MIG_GI("h100-80", 4, 0, "7g.80gb", 7, 8, FIRST, 1, 81152, 132, 8, 7, 0, 7, 1, 0, 0, MEASURED)

MIG_BOARD("h200", 7, 8, 16, 0, 0, 0, MEASURED)
MIG_GI("h200", 0, 19, "1g.18gb", 1, 1, EVERY, 7, 16384, 16, 1, 1, 0, 1, 0, 0, 0, MEASURED)
MIG_GI("h200", 7, 20, "1g.18gb+me", 1, 1, EVERY, 1, 16384, 16, 1, 1, 0, 1, 1, 1, 0, MEASURED)
MIG_GI("h200", 9, 15, "1g.35gb", 1, 2, EVEN4, 4, 33280, 26, 1, 1, 0, 1, 0, 0, 0, MEASURED)
MIG_GI("h200", 1, 14, "2g.35gb", 2, 2, EVEN3, 3, 33280, 32, 2, 2, 0, 2, 0, 0, 0, MEASURED)
MIG_GI("h200", 2, 9, "3g.71gb", 3, 4, HALF, 2, 71424, 60, 3, 3, 0, 3, 0, 0, 0, MEASURED)
MIG_GI("h200", 3, 5, "4g.71gb", 4, 4, FIRST, 1, 71424, 64, 4, 4, 0, 4, 0, 0, 0, MEASURED)
MIG_GI("h200", 4, 0, "7g.141gb", 7, 8, FIRST, 1, 143360, 132, 8, 7, 0, 7, 1, 0, 0, MEASURED)

MIG_BOARD("b200", 7, 8, 18, 0, 0, 0, PUBLISHED)
MIG_GI("b200", 0, 19, "1g.23gb", 1, 1, EVERY, 7, 22528, 18, 2, 1, 0, 1, 0, 0, 0, CHOSEN)
MIG_GI("b200", 7, 20, "1g.23gb+me", 1, 1, EVERY, 1, 22528, 18, 2, 1, 0, 1, 1, 1, 0, CHOSEN)
MIG_GI("b200", 9, 15, "1g.45gb", 1, 2, EVEN4, 4, 45312, 30, 2, 1, 0, 1, 0, 0, 0, PUBLISHED)
MIG_GI("b200", 1, 14, "2g.45gb", 2, 2, EVEN3, 3, 45312, 36, 3, 2, 0, 2, 0, 0, 0, UNEVEN)
MIG_GI("b200", 2, 9, "3g.90gb", 3, 4, HALF, 2, 91136, 70, 6, 3, 0, 3, 0, 0, 0, UNEVEN)
MIG_GI("b200", 3, 5, "4g.90gb", 4, 4, FIRST, 1, 91136, 74, 8, 4, 0, 4, 0, 0, 0, UNEVEN)
MIG_GI("b200", 4, 0, "7g.180gb", 7, 8, FIRST, 1, 182784, 148, 16, 7, 0, 7, 1, 0, 0, UNEVEN)

MIG_CI(1, 0, 0, 1, 0x01, 1, 0, PUBLISHED)
MIG_CI(2, 0, 0, 1, 0x03, 2, 0, PUBLISHED)
MIG_CI(2, 1, 1, 2, 0x01, 1, 0, PUBLISHED)
MIG_CI(3, 0, 0, 1, 0x07, 3, 0, PUBLISHED)
MIG_CI(3, 1, 1, 2, 0x01, 1, 0, PUBLISHED)
MIG_CI(3, 2, 2, 3, 0x01, 1, 0, PUBLISHED)
MIG_CI(4, 0, 0, 1, 0x0f, 4, 0, PUBLISHED)
MIG_CI(4, 1, 1, 2, 0x05, 2, 0, PUBLISHED)
MIG_CI(4, 3, 3, 4, 0x01, 1, 0, PUBLISHED)
MIG_CI(7, 0, 0, 1, 0x7f, 7, 0, PUBLISHED)
MIG_CI(7, 1, 1, 2, 0x15, 3, 0, COUNTED)
MIG_CI(7, 2, 2, 3, 0x09, 2, 0, COUNTED)
MIG_CI(7, 3, 3, 4, 0x01, 1, 0, COUNTED)
MIG_CI(7, 4, 4, 7, 0x01, 1, 0, PUBLISHED)

#undef PUBLISHED
#undef REPORTED
#undef RECALLED
#undef CHOSEN
#undef UNEVEN
#undef COUNTED
#undef EVERY
#undef EVEN4
#undef EVEN3
#undef HALF
#undef FIRST
#undef A30_EVERY
#undef A30_HALF
