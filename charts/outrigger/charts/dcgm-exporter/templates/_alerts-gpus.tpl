{{- /* Alerts on faults of GPUs. */ -}}
{{- define "dcgm-exporter.alertsOfGPUs" -}}
{{- $by := include "dcgm-exporter.byGPU" . -}}
{{- $gpu := include "dcgm-exporter.thisGPU" . -}}
- name: outrigger-gpus
  rules:
    - alert: GPULost
      expr: min {{ $by }} (gpu_up) == 0
      for: 2m
      labels: {severity: critical}
      annotations:
        summary: {{ $gpu }} does not answer
        description: The GPU has left the PCI bus, or its driver hangs. Drain the node, and reboot it; if that does not help, replace the GPU.
    - alert: GPUXidCritical
      expr: |-
        {{- include "dcgm-exporter.xids" "critical" | nindent 8 }}
      labels: {severity: critical}
      annotations:
        summary: {{ $gpu }} reported XID [[ $labels.xid ]]
        description: The XID is one of faults of the hardware or the driver, after which the GPU needs a reset or the node a reboot. Drain the node, and look the XID up in NVIDIA's documentation.
    - alert: GPUXidApplication
      expr: |-
        {{- include "dcgm-exporter.xids" "application" | nindent 8 }}
      labels: {severity: info}
      annotations:
        summary: {{ $gpu }} reported XID [[ $labels.xid ]]
        description: A program has used the GPU in a wrong way, or was killed. Look at the pod that ran on it; the GPU works on.
    - alert: GPURecoveryActionNeeded
      expr: max {{ $by }} (gpu_recovery_action) > 0
      for: 5m
      labels: {severity: critical}
      annotations:
        summary: {{ $gpu }} needs [[ if eq $value 1.0 ]]a reset[[ else if eq $value 2.0 ]]a reboot of its node[[ else ]]to be drained, recovery action [[ $value ]],[[ end ]] to be healthy again
        description: The driver has found a fault after which programs fail on the GPU. Drain the node, and do what the driver requests.
    - alert: GPUUncorrectableECC
      expr: |-
        max {{ $by }} (increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[1h])) > 0
        or max {{ $by }} (increase(DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS[1h])) > 0
      labels: {severity: critical}
      annotations:
        summary: {{ $gpu }} has uncorrectable memory errors
        description: The process that used the memory was ended. Drain the node, and reset the GPU, so that it replaces the memory.
    - alert: GPURowRemapFailure
      expr: max {{ $by }} (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0
      labels: {severity: critical}
      annotations:
        summary: {{ $gpu }} cannot replace broken memory
        description: The GPU has no spare memory left for a broken row. Replace it.
    - alert: GPURowRemapPending
      expr: max {{ $by }} (DCGM_FI_DEV_ROW_REMAP_PENDING) > 0
      for: 10m
      labels: {severity: warning}
      annotations:
        summary: {{ $gpu }} needs a reset to replace broken memory
        description: Until then, the broken row stays in use. Drain the node, and reset the GPU or reboot the node.
    - alert: GPURetiredPagesPending
      expr: max {{ $by }} (DCGM_FI_DEV_RETIRED_PENDING) > 0
      for: 10m
      labels: {severity: warning}
      annotations:
        summary: {{ $gpu }} needs a reset to retire broken memory pages
        description: Until then, the broken pages stay in use. Drain the node, and reset the GPU or reboot the node.
    - alert: GPUThermalSlowdown
      expr: |-
        max {{ $by }} (rate(gpu_throttle_seconds_total{reason=~"hw_thermal|sw_thermal"}[5m])) > 0.1
        or max {{ $by }} (rate(DCGM_FI_DEV_THERMAL_VIOLATION[5m])) / 1e9 > 0.1
      for: 5m
      labels: {severity: warning}
      annotations:
        summary: {{ $gpu }} is slowed down by its temperature for [[ $value | humanizePercentage ]] of the time
        description: Check the fans, the air flow and the temperature of the room.
    - alert: GPUPowerBrake
      expr: max {{ $by }} (rate(gpu_throttle_seconds_total{reason="hw_power_brake"}[5m])) > 0.01
      for: 5m
      labels: {severity: warning}
      annotations:
        summary: {{ $gpu }} is slowed down by the power brake of its machine
        description: The machine protects its power supply. Check the power supplies and the limits of the rack.
    - alert: GPUTemperatureHigh
      expr: max {{ $by }} (DCGM_FI_DEV_GPU_TEMP) > max {{ $by }} (DCGM_FI_DEV_SLOWDOWN_TEMP) - 3
      for: 5m
      labels: {severity: warning}
      annotations:
        summary: {{ $gpu }} has [[ $value ]] °C, and slows down soon
        description: Check the fans, the air flow and the temperature of the room.
    - alert: GPUNVLinkErrors
      expr: |-
        max {{ $by }} (increase(DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL[15m])) > 10
        or max {{ $by }} (increase(DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL[15m])) > 0
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: {{ $gpu }} has errors on its NVLinks
        description: Programs that use several GPUs become slow. nvidia-smi nvlink -e shows the link; check its bridge or cable.
    - alert: GPUPCIeReplays
      expr: max {{ $by }} (rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[15m])) * 60 > 10
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: {{ $gpu }} repeats [[ $value | humanize ]] PCIe transfers a minute
        description: The connection to the board is bad. Reseat the GPU or its riser.
    - alert: GPUPCIeLinkDegraded
      expr: max {{ $by }} (DCGM_FI_DEV_PCIE_LINK_WIDTH) < max {{ $by }} (DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH)
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: {{ $gpu }} uses only [[ $value ]] PCIe lanes
        description: Fewer lanes than the GPU has are in use. Reseat it, and check the slot of the board.
    - alert: GPUClockLowWhileBusy
      expr: |-
        max {{ $by }} (DCGM_FI_DEV_SM_CLOCK) < 0.5 * max {{ $by }} (max_over_time(DCGM_FI_DEV_SM_CLOCK[1d]))
        and (max {{ $by }} (DCGM_FI_DEV_GPU_UTIL) > 90 or max {{ $by }} (DCGM_FI_PROF_GR_ENGINE_ACTIVE) > 0.9)
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: {{ $gpu }} is busy at a clock of only [[ $value ]] MHz
        description: That is less than half of its clock of the last day. The throttle reasons (gpu_throttle_seconds_total) say why; without one, check the limits that nvidia-smi -q -d CLOCK,POWER shows.
{{- end -}}
