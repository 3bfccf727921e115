{{- /* Alerts on unused GPUs and on missing metrics. */ -}}
{{- define "dcgm-exporter.alertsOfUse" -}}
{{- $by := include "dcgm-exporter.byGPU" . -}}
{{- $gpu := include "dcgm-exporter.thisGPU" . -}}
- name: outrigger-gpu-use
  rules:
    - alert: GPUAllocatedButIdle
      expr: rate(gpu_pod_idle_seconds_total[1h]) / rate(gpu_pod_allocated_seconds_total[1h]) > 0.98
      for: 2h
      labels: {severity: info}
      annotations:
        summary: Pod [[ or $labels.exported_namespace $labels.namespace ]]/[[ or $labels.exported_pod $labels.pod ]] has had {{ $gpu }} for hours and does not use it
        description: Nobody else can use what is allocated to the pod. Ask its owner to release it, or to request less.
- name: outrigger-dcgm-exporter
  rules:
    - alert: GPUExporterDown
      expr: up{job="nvidia-dcgm-exporter"} == 0
      for: 5m
      labels: {severity: warning}
      annotations:
        summary: The exporter of GPU metrics at [[ $labels.instance ]] does not answer
        description: The GPUs of this node are not watched. The log and the readiness of pod [[ $labels.namespace ]]/[[ $labels.pod ]] say why.
    - alert: GPUMetricsStale
      expr: max {{ $by }} (exporter_sample_age_seconds) > 120
      for: 2m
      labels: {severity: warning}
      annotations:
        summary: The metrics of {{ $gpu }} are [[ $value | humanizeDuration ]] old
        description: The driver answers slowly or not at all. The log of the exporter on this node names the call.
    - alert: GPUMetricsFailing
      expr: max {{ $by }} (rate(exporter_sample_errors_total[10m])) > 0
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: The exporter cannot read {{ $gpu }}
        description: The metrics that are missing are in exporter_field_unavailable, with the reason.
    - alert: GPUPodMappingBroken
      expr: min by (job, instance, namespace, pod) (exporter_pod_mapping_up) == 0
      for: 10m
      labels: {severity: warning}
      annotations:
        summary: The GPU metrics of [[ $labels.instance ]] do not say which pods use the GPUs
        description: The exporter (pod [[ $labels.namespace ]]/[[ $labels.pod ]]) cannot read the kubelet's socket for pod resources; its log says why.
{{- end -}}
