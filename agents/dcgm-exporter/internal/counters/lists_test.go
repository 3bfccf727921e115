package counters_test

import (
	"fmt"
	"strings"
	"testing"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
)

// publicLists has the rows, also the commented ones, of NVIDIA's default-counters.csv,
// dcp-metrics-included.csv and 1.x-compatibility-metrics.csv, and of the list that Datadog recommends.
// The default type is gauge.
const publicLists = `DCGM_FI_DEV_SM_CLOCK DCGM_FI_DEV_MEM_CLOCK DCGM_FI_DEV_MEMORY_TEMP DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_POWER_USAGE
	DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION DCGM_FI_DEV_PCIE_TX_THROUGHPUT DCGM_FI_DEV_PCIE_RX_THROUGHPUT DCGM_FI_DEV_PCIE_REPLAY_COUNTER
	DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_MEM_COPY_UTIL DCGM_FI_DEV_ENC_UTIL DCGM_FI_DEV_DEC_UTIL DCGM_FI_DEV_XID_ERRORS
	DCGM_FI_DEV_POWER_VIOLATION DCGM_FI_DEV_THERMAL_VIOLATION DCGM_FI_DEV_SYNC_BOOST_VIOLATION DCGM_FI_DEV_BOARD_LIMIT_VIOLATION
	DCGM_FI_DEV_LOW_UTIL_VIOLATION DCGM_FI_DEV_RELIABILITY_VIOLATION DCGM_FI_DEV_FB_FREE DCGM_FI_DEV_FB_USED DCGM_FI_DEV_FB_RESERVED
	DCGM_FI_DEV_ECC_SBE_VOL_TOTAL DCGM_FI_DEV_ECC_DBE_VOL_TOTAL DCGM_FI_DEV_ECC_SBE_AGG_TOTAL DCGM_FI_DEV_ECC_DBE_AGG_TOTAL
	DCGM_FI_DEV_RETIRED_SBE DCGM_FI_DEV_RETIRED_DBE DCGM_FI_DEV_RETIRED_PENDING DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL
	DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL
	DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL DCGM_FI_DEV_NVLINK_BANDWIDTH_L0 DCGM_FI_DEV_VGPU_LICENSE_STATUS
	DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_ROW_REMAP_FAILURE
	DCGM_FI_DRIVER_VERSION/label DCGM_FI_NVML_VERSION/label DCGM_FI_DEV_BRAND/label DCGM_FI_DEV_SERIAL/label
	DCGM_FI_DEV_OEM_INFOROM_VER/label DCGM_FI_DEV_ECC_INFOROM_VER/label DCGM_FI_DEV_POWER_INFOROM_VER/label
	DCGM_FI_DEV_INFOROM_IMAGE_VER/label DCGM_FI_DEV_VBIOS_VERSION/label DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_SM_ACTIVE
	DCGM_FI_PROF_SM_OCCUPANCY DCGM_FI_PROF_PIPE_TENSOR_ACTIVE DCGM_FI_PROF_DRAM_ACTIVE DCGM_FI_PROF_PIPE_FP64_ACTIVE
	DCGM_FI_PROF_PIPE_FP32_ACTIVE DCGM_FI_PROF_PIPE_FP16_ACTIVE DCGM_FI_PROF_PCIE_TX_BYTES DCGM_FI_PROF_PCIE_RX_BYTES
	DCGM_EXP_CLOCK_EVENTS_COUNT DCGM_EXP_XID_ERRORS_COUNT DCGM_EXP_GPU_HEALTH_STATUS DCGM_EXP_P2P_STATUS
	dcgm_sm_clock dcgm_memory_clock dcgm_memory_temp dcgm_gpu_temp dcgm_power_usage dcgm_total_energy_consumption
	dcgm_pcie_tx_throughput dcgm_pcie_rx_throughput dcgm_pcie_replay_counter dcgm_gpu_utilization dcgm_mem_copy_utilization
	dcgm_enc_utilization dcgm_dec_utilization dcgm_xid_errors dcgm_power_violation dcgm_thermal_violation dcgm_sync_boost_violation
	dcgm_board_limit_violation dcgm_low_util_violation dcgm_reliability_violation dcgm_fb_free dcgm_fb_used
	dcgm_ecc_sbe_volatile_total dcgm_ecc_dbe_volatile_total dcgm_ecc_sbe_aggregate_total dcgm_ecc_dbe_aggregate_total
	dcgm_retired_pages_sbe dcgm_retired_pages_dbe dcgm_retired_pages_pending dcgm_nvlink_flit_crc_error_count_total
	dcgm_nvlink_data_crc_error_count_total dcgm_nvlink_replay_error_count_total dcgm_nvlink_recovery_error_count_total
	dcgm_nvlink_bandwidth_total dcgm_fi_prof_gr_engine_active dcgm_fi_prof_sm_active dcgm_fi_prof_sm_occupancy
	dcgm_fi_prof_pipe_tensor_active dcgm_fi_prof_dram_active dcgm_fi_prof_pcie_tx_bytes dcgm_fi_prof_pcie_rx_bytes
	DCGM_FI_DEV_COUNT DCGM_FI_DEV_FAN_SPEED DCGM_FI_PROCESS_NAME/label DCGM_FI_DEV_SLOWDOWN_TEMP DCGM_FI_DEV_POWER_MGMT_LIMIT
	DCGM_FI_DEV_PSTATE DCGM_FI_DEV_FB_TOTAL DCGM_FI_DEV_FB_USED_PERCENT DCGM_FI_DEV_CLOCK_THROTTLE_REASONS
	DCGM_FI_CUDA_DRIVER_VERSION/label DCGM_FI_DEV_NAME/label DCGM_FI_DEV_MINOR_NUMBER/label`

func TestPublicLists(t *testing.T) {
	// The rows that are not served, with the reasons.
	notServed := map[string]string{
		"DCGM_FI_PROCESS_NAME": "it names the process that runs DCGM, and there is none",
	}
	for _, row := range strings.Fields(publicLists) {
		name, kind, _ := strings.Cut(row, "/")
		if kind == "" {
			kind = "gauge"
		}
		_, _, err := counters.Parse(fmt.Appendf(nil, "%s, %s, x\n", name, kind))
		if explained := notServed[name] != ""; (err == nil) == explained {
			t.Errorf("%s: served: %v, explained: %t", name, err, explained)
		}
	}
}
