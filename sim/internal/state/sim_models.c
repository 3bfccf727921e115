/*
 * sim_models.c: the products that the simulator knows, one block each. This is
 * the one source for the libraries and for gpu-sim.
 *
 * The values of .gpu were not compared with hardware. Names, memory and PCI IDs
 * are published values. Clocks, power, firmware and topology are typical values.
 *
 * A block has the values of an idle GPU that depend on the product, the places
 * of the GPUs in a server, and the MIG profiles if the product supports MIG. A
 * row of .profile is a struct sim_gi_profile:
 *
 *   {profile, id, name, compute slices, memory slices, starts, max,
 *    memory in MiB, SMs, copy engines, decoders, encoders, JPEG, OFA,
 *    media: at most one instance of the GPU may have it, verified, source}
 *
 * verified is 1 if instances of the profile were created on such a GPU and
 * compared. The rows with the source MEASURED are equal to the profiles and
 * placements that NVML lists on such a GPU, but no instances were created there.
 * profile is a number of NVML_GPU_INSTANCE_PROFILE_…. Bit n of starts is set if
 * an instance can start at memory slice n.
 */
#include "sim_servers.h"

#include <string.h>

#define MIB (1ull << 20)
#define WATT 1000

/* nvmlBrandType_t, nvmlDeviceArchitecture_t */
enum { BRAND_NVIDIA = 14 };
enum { AMPERE = 7, ADA = 8, HOPPER = 9, BLACKWELL = 10 };

#define PUBLISHED "as published by NVIDIA (MIG user guide)"
#define MEASURED "as driver 580.159.04 reports it on such a GPU"
#define RECALLED "no published figure at hand: as the driver's other profiles suggest"
#define CHOSEN "published as a range or not at all: one value of it was chosen"
#define UNEVEN "published with one decoder and JPEG engine in every profile; more in the larger ones, and SMs, are assumed"

#define EVERY 0x7f /* 0 1 2 3 4 5 6 */
#define EVEN4 0x55 /* 0 2 4 6 */
#define EVEN3 0x15 /* 0 2 4 */
#define HALF 0x11  /* 0 4 */
#define FIRST 0x01 /* 0 */
#define A30_EVERY 0x0f
#define A30_HALF 0x05

static const struct sim_model models[] = {
	{
		.gpu = {
			.model = "a100-40", .name = "NVIDIA A100-SXM4-40GB",
			.brand = BRAND_NVIDIA, .architecture = AMPERE, .cc_major = 8, .cc_minor = 0,
			.memory_total = 40960 * MIB, .memory_reserved = 425 * MIB,
			.pci_id = 0x20b010de, .subsystem_id = 0x134f10de, .pcie_gen = 4,
			.board_part = "692-2G506-0200-002", .vbios = "92.00.45.00.03",
			.inforom_image = "G506.0200.00.04", .inforom_oem = "2.0", .inforom_ecc = "6.16",
			.sms = 108, .cores_per_sm = 64,
			.encoders = 0, .decoders = 5, .jpegs = 1, .ofas = 1,
			.power = 55 * WATT, .power_limit = 400 * WATT, .power_min = 100 * WATT, .power_max = 400 * WATT,
			.clock = {210, 210, 1215, 585}, .clock_max = {1410, 1410, 1215, 1290},
			.limit_shutdown = 92, .limit_slowdown = 89, .limit_gpu = 85, .limit_memory = 95,
		},
		.board = &hgx_a100, .place = places_a100,
		.mig = {
			.compute_slices = 7, .memory_slices = 8, .slice_sms = 14, .source = PUBLISHED,
			.mode_needs_reset = true,
			.profile = {
				{0, 19, "1g.5gb", 1, 1, EVERY, 7, 4864, 14, 1, 0, 0, 0, 0, 0, 0, PUBLISHED},
				{7, 20, "1g.5gb+me", 1, 1, EVERY, 1, 4864, 14, 1, 1, 0, 1, 1, 1, 0, PUBLISHED},
				{9, 15, "1g.10gb", 1, 2, EVEN4, 4, 9856, 14, 1, 1, 0, 0, 0, 0, 0, PUBLISHED},
				{1, 14, "2g.10gb", 2, 2, EVEN3, 3, 9856, 28, 2, 1, 0, 0, 0, 0, 0, PUBLISHED},
				{2, 9, "3g.20gb", 3, 4, HALF, 2, 19968, 42, 3, 2, 0, 0, 0, 0, 0, PUBLISHED},
				{3, 5, "4g.20gb", 4, 4, FIRST, 1, 19968, 56, 4, 2, 0, 0, 0, 0, 0, PUBLISHED},
				{4, 0, "7g.40gb", 7, 8, FIRST, 1, 40192, 98, 7, 5, 0, 1, 1, 0, 0, PUBLISHED},
			},
		},
	},
	{
		.gpu = {
			.model = "a100-80", .name = "NVIDIA A100-SXM4-80GB",
			.brand = BRAND_NVIDIA, .architecture = AMPERE, .cc_major = 8, .cc_minor = 0,
			.memory_total = 81920 * MIB, .memory_reserved = 869 * MIB,
			.pci_id = 0x20b210de, .subsystem_id = 0x147f10de, .pcie_gen = 4,
			.board_part = "692-2G506-0212-002", .vbios = "92.00.45.00.05",
			.inforom_image = "G506.0212.00.01", .inforom_oem = "2.0", .inforom_ecc = "6.16",
			.sms = 108, .cores_per_sm = 64,
			.encoders = 0, .decoders = 5, .jpegs = 1, .ofas = 1,
			.power = 60 * WATT, .power_limit = 400 * WATT, .power_min = 100 * WATT, .power_max = 400 * WATT,
			.clock = {210, 210, 1593, 585}, .clock_max = {1410, 1410, 1593, 1290},
			.limit_shutdown = 92, .limit_slowdown = 89, .limit_gpu = 85, .limit_memory = 95,
		},
		.board = &hgx_a100, .place = places_a100,
		.mig = {
			.compute_slices = 7, .memory_slices = 8, .slice_sms = 14, .source = PUBLISHED,
			.mode_needs_reset = true,
			.profile = {
				{0, 19, "1g.10gb", 1, 1, EVERY, 7, 9856, 14, 1, 0, 0, 0, 0, 0, 0, PUBLISHED},
				{7, 20, "1g.10gb+me", 1, 1, EVERY, 1, 9856, 14, 1, 1, 0, 1, 1, 1, 0, PUBLISHED},
				{9, 15, "1g.20gb", 1, 2, EVEN4, 4, 19968, 14, 1, 1, 0, 0, 0, 0, 0, PUBLISHED},
				{1, 14, "2g.20gb", 2, 2, EVEN3, 3, 19968, 28, 2, 1, 0, 0, 0, 0, 0, PUBLISHED},
				{2, 9, "3g.40gb", 3, 4, HALF, 2, 40192, 42, 3, 2, 0, 0, 0, 0, 0, PUBLISHED},
				{3, 5, "4g.40gb", 4, 4, FIRST, 1, 40192, 56, 4, 2, 0, 0, 0, 0, 0, PUBLISHED},
				{4, 0, "7g.80gb", 7, 8, FIRST, 1, 80384, 98, 7, 5, 0, 1, 1, 0, 0, PUBLISHED},
			},
		},
	},
	{
		.gpu = {
			.model = "a30", .name = "NVIDIA A30",
			.brand = BRAND_NVIDIA, .architecture = AMPERE, .cc_major = 8, .cc_minor = 0,
			.memory_total = 24576 * MIB, .memory_reserved = 416 * MIB,
			.pci_id = 0x20b710de, .subsystem_id = 0x153210de, .pcie_gen = 4,
			.board_part = "900-21001-0040-000", .vbios = "92.00.66.00.09",
			.inforom_image = "1001.0205.00.03", .inforom_oem = "2.0", .inforom_ecc = "6.16",
			.sms = 56, .cores_per_sm = 64,
			.encoders = 0, .decoders = 4, .jpegs = 1, .ofas = 1,
			.power = 28 * WATT, .power_limit = 165 * WATT, .power_min = 100 * WATT, .power_max = 165 * WATT,
			.clock = {210, 210, 1215, 645}, .clock_max = {1440, 1440, 1215, 1305},
			.limit_shutdown = 96, .limit_slowdown = 93, .limit_gpu = 89, .limit_memory = 95,
		},
		.place = places_pcie,
		.mig = {
			.compute_slices = 4, .memory_slices = 4, .slice_sms = 14, .source = PUBLISHED,
			.mode_needs_reset = true, .from_below = true,
			.profile = {
				{0, 14, "1g.6gb", 1, 1, A30_EVERY, 4, 5952, 14, 1, 1, 0, 0, 0, 0, 0, PUBLISHED},
				{7, 21, "1g.6gb+me", 1, 1, A30_EVERY, 1, 5952, 14, 1, 1, 0, 1, 1, 1, 0, PUBLISHED},
				{1, 5, "2g.12gb", 2, 2, A30_HALF, 2, 11968, 28, 2, 2, 0, 0, 0, 0, 0, PUBLISHED},
				{8, 6, "2g.12gb+me", 2, 2, A30_HALF, 1, 11968, 28, 2, 2, 0, 1, 1, 1, 0, RECALLED},
				{3, 0, "4g.24gb", 4, 4, FIRST, 1, 24000, 56, 4, 4, 0, 1, 1, 0, 0, PUBLISHED},
			},
		},
	},
	{
		.gpu = {
			.model = "h100-80", .name = "NVIDIA H100 80GB HBM3",
			.brand = BRAND_NVIDIA, .architecture = HOPPER, .cc_major = 9, .cc_minor = 0,
			.memory_total = 81559 * MIB, .memory_reserved = 551 * MIB,
			.pci_id = 0x233010de, .subsystem_id = 0x16c110de, .pcie_gen = 5,
			.board_part = "692-2G520-0200-000", .vbios = "96.00.61.00.01",
			.inforom_image = "G520.0200.00.05", .inforom_oem = "2.1", .inforom_ecc = "7.16",
			.sms = 132, .cores_per_sm = 128,
			.encoders = 0, .decoders = 7, .jpegs = 7, .ofas = 1,
			.power = 70 * WATT, .power_limit = 700 * WATT, .power_min = 200 * WATT, .power_max = 700 * WATT,
			.clock = {345, 345, 2619, 765}, .clock_max = {1980, 1980, 2619, 1545},
			.limit_shutdown = 95, .limit_slowdown = 89, .limit_gpu = 87, .limit_memory = 95,
		},
		.board = &hgx_h100, .place = places_h100,
		.mig = {
			.compute_slices = 7, .memory_slices = 8, .slice_sms = 16, .source = MEASURED,
			.profile = {
				{0, 19, "1g.10gb", 1, 1, EVERY, 7, 9984, 16, 1, 1, 0, 1, 0, 0, 0, MEASURED},
				{7, 20, "1g.10gb+me", 1, 1, EVERY, 1, 9984, 16, 1, 1, 0, 1, 1, 1, 0, MEASURED},
				{9, 15, "1g.20gb", 1, 2, EVEN4, 4, 20096, 26, 1, 1, 0, 1, 0, 0, 0, MEASURED},
				{1, 14, "2g.20gb", 2, 2, EVEN3, 3, 20096, 32, 2, 2, 0, 2, 0, 0, 0, MEASURED},
				{2, 9, "3g.40gb", 3, 4, HALF, 2, 40448, 60, 3, 3, 0, 3, 0, 0, 0, MEASURED},
				{3, 5, "4g.40gb", 4, 4, FIRST, 1, 40448, 64, 4, 4, 0, 4, 0, 0, 0, MEASURED},
				{4, 0, "7g.80gb", 7, 8, FIRST, 1, 81152, 132, 8, 7, 0, 7, 1, 0, 0, MEASURED},
			},
		},
	},
	{
		.gpu = {
			.model = "h200", .name = "NVIDIA H200",
			.brand = BRAND_NVIDIA, .architecture = HOPPER, .cc_major = 9, .cc_minor = 0,
			.memory_total = 143771 * MIB, .memory_reserved = 604 * MIB,
			.pci_id = 0x233510de, .subsystem_id = 0x18be10de, .pcie_gen = 5,
			.board_part = "692-2G520-0280-000", .vbios = "96.00.99.00.01",
			.inforom_image = "G520.0280.00.07", .inforom_oem = "2.1", .inforom_ecc = "7.16",
			.sms = 132, .cores_per_sm = 128,
			.encoders = 0, .decoders = 7, .jpegs = 7, .ofas = 1,
			.power = 75 * WATT, .power_limit = 700 * WATT, .power_min = 200 * WATT, .power_max = 700 * WATT,
			.clock = {345, 345, 3201, 765}, .clock_max = {1980, 1980, 3201, 1545},
			.limit_shutdown = 95, .limit_slowdown = 89, .limit_gpu = 87, .limit_memory = 95,
		},
		.board = &hgx_h100, .place = places_h100,
		.mig = {
			.compute_slices = 7, .memory_slices = 8, .slice_sms = 16, .source = MEASURED,
			.profile = {
				{0, 19, "1g.18gb", 1, 1, EVERY, 7, 16384, 16, 1, 1, 0, 1, 0, 0, 0, MEASURED},
				{7, 20, "1g.18gb+me", 1, 1, EVERY, 1, 16384, 16, 1, 1, 0, 1, 1, 1, 0, MEASURED},
				{9, 15, "1g.35gb", 1, 2, EVEN4, 4, 33280, 26, 1, 1, 0, 1, 0, 0, 0, MEASURED},
				{1, 14, "2g.35gb", 2, 2, EVEN3, 3, 33280, 32, 2, 2, 0, 2, 0, 0, 0, MEASURED},
				{2, 9, "3g.71gb", 3, 4, HALF, 2, 71424, 60, 3, 3, 0, 3, 0, 0, 0, MEASURED},
				{3, 5, "4g.71gb", 4, 4, FIRST, 1, 71424, 64, 4, 4, 0, 4, 0, 0, 0, MEASURED},
				{4, 0, "7g.141gb", 7, 8, FIRST, 1, 143360, 132, 8, 7, 0, 7, 1, 0, 0, MEASURED},
			},
		},
	},
	{
		.gpu = {
			.model = "b200", .name = "NVIDIA B200",
			.brand = BRAND_NVIDIA, .architecture = BLACKWELL, .cc_major = 10, .cc_minor = 0,
			.memory_total = 183359 * MIB, .memory_reserved = 712 * MIB,
			.pci_id = 0x290110de, .subsystem_id = 0x199910de, .pcie_gen = 5,
			.board_part = "692-2G525-0200-000", .vbios = "97.00.82.00.01",
			.inforom_image = "G525.0225.00.04", .inforom_oem = "2.1", .inforom_ecc = "7.16",
			.sms = 148, .cores_per_sm = 128,
			.encoders = 0, .decoders = 7, .jpegs = 7, .ofas = 1,
			.power = 140 * WATT, .power_limit = 1000 * WATT, .power_min = 200 * WATT, .power_max = 1000 * WATT,
			.clock = {120, 120, 3996, 660}, .clock_max = {1965, 1965, 3996, 1965},
			.limit_shutdown = 95, .limit_slowdown = 89, .limit_gpu = 87, .limit_memory = 95,
		},
		.board = &hgx_b200, .place = places_h100,
		.mig = {
			.compute_slices = 7, .memory_slices = 8, .slice_sms = 18, .source = PUBLISHED,
			.profile = {
				{0, 19, "1g.23gb", 1, 1, EVERY, 7, 22528, 18, 2, 1, 0, 1, 0, 0, 0, CHOSEN},
				{7, 20, "1g.23gb+me", 1, 1, EVERY, 1, 22528, 18, 2, 1, 0, 1, 1, 1, 0, CHOSEN},
				{9, 15, "1g.45gb", 1, 2, EVEN4, 4, 45312, 30, 2, 1, 0, 1, 0, 0, 0, PUBLISHED},
				{1, 14, "2g.45gb", 2, 2, EVEN3, 3, 45312, 36, 3, 2, 0, 2, 0, 0, 0, UNEVEN},
				{2, 9, "3g.90gb", 3, 4, HALF, 2, 91136, 70, 6, 3, 0, 3, 0, 0, 0, UNEVEN},
				{3, 5, "4g.90gb", 4, 4, FIRST, 1, 91136, 74, 8, 4, 0, 4, 0, 0, 0, UNEVEN},
				{4, 0, "7g.180gb", 7, 8, FIRST, 1, 182784, 148, 16, 7, 0, 7, 1, 0, 0, UNEVEN},
			},
		},
	},
	{
		.gpu = {
			.model = "l4", .name = "NVIDIA L4",
			.brand = BRAND_NVIDIA, .architecture = ADA, .cc_major = 8, .cc_minor = 9,
			.memory_total = 23034 * MIB, .memory_reserved = 431 * MIB,
			.pci_id = 0x27b810de, .subsystem_id = 0x16ca10de, .pcie_gen = 4,
			.board_part = "900-2G193-0000-000", .vbios = "95.04.29.00.06",
			.inforom_image = "G193.0200.00.01", .inforom_oem = "2.1", .inforom_ecc = "6.16",
			.sms = 58, .cores_per_sm = 128,
			.encoders = 2, .decoders = 4, .jpegs = 4, .ofas = 1,
			.power = 16 * WATT, .power_limit = 72 * WATT, .power_min = 40 * WATT, .power_max = 72 * WATT,
			.clock = {210, 210, 405, 1185}, .clock_max = {2040, 2040, 6251, 1770},
			.limit_shutdown = 93, .limit_slowdown = 90, .limit_gpu = 88, .limit_memory = 0,
		},
		.place = places_pcie,
	},
};

const struct sim_model *sim_model_at(uint32_t index)
{
	return index < sizeof(models) / sizeof(models[0]) ? &models[index] : NULL;
}

const struct sim_model *sim_model(const char *name)
{
	const struct sim_model *model;

	for (uint32_t i = 0; (model = sim_model_at(i)) != NULL; i++) {
		if (strcmp(model->gpu.model, name) == 0)
			break;
	}
	return model;
}
