{{- /* The names of the variables are those of NVIDIA's DCGM Exporter. */ -}}
{{- define "dcgm-exporter.env" -}}
{{- $driver := include "dcgm-exporter.driver" (dict "root" . "template" "outrigger.driverEnv") -}}
{{- if .Values.hostPID }}
# PROC_ROOT: in the host's PID namespace, the container's own /proc has all processes and the
# driver.
{{ replace "/host/proc" "/proc" $driver }}
{{- else }}
{{ $driver }}
{{- end }}
{{- if .Values.metrics.port }}
- name: DCGM_EXPORTER_LISTEN
  value: {{ printf "%s:%d" (include "outrigger.localhost" . | empty | ternary "" "127.0.0.1") (int .Values.metrics.port) | quote }}
{{- end }}
- name: DCGM_EXPORTER_KUBERNETES
  value: "true"
- name: DCGM_EXPORTER_COLLECTORS
  value: {{ include "dcgm-exporter.countersName" . | empty | ternary "/etc/dcgm-exporter/dcp-metrics-included.csv" (printf "/counters/%s" (include "dcgm-exporter.countersKey" .)) }}
- name: DCGM_POD_RESOURCES_KUBELET_SOCKET
  value: {{ include "dcgm-exporter.podResources" . }}/kubelet.sock
{{- if include "dcgm-exporter.podLabels" . }}
- name: DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS
  value: "true"
{{- end }}
{{- if .Values.enablePodUID }}
- name: DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID
  value: "true"
{{- end }}
{{- if .Values.hpcJobMapping.enabled }}
- name: DCGM_HPC_JOB_MAPPING_DIR
  value: {{ .Values.hpcJobMapping.directory | quote }}
{{- end }}
{{- end -}}

{{- define "dcgm-exporter.choices" -}}
{{- include "outrigger.choiceEnv" (list
  (list "NVIDIA_DEV_ROOT" (include "dcgm-exporter.driver" (dict "root" . "template" "outrigger.devRoot")))
  (list "DCGM_EXPORTER_METRIC_NAMES" .Values.metricNames)
  (list "DCGM_EXPORTER_HOSTNAME_LABEL" .Values.hostnameLabel)
  (list "DCGM_EXPORTER_MIG_GPU_METRICS" .Values.migGPUMetrics)
  (list "DCGM_EXPORTER_INTERVAL" .Values.collectInterval)
  (list "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX" .Values.podLabelAllowlistRegex)) -}}
{{- end -}}

{{- /* The user's variables. As in NVIDIA's GPU Operator, a list in the values takes precedence over
the variable with the path of a list. */ -}}
{{- define "dcgm-exporter.userEnv" -}}
{{- $counters := include "dcgm-exporter.countersName" . -}}
{{- $env := list -}}
{{- range default list .Values.env -}}
{{- if not (and $counters (eq .name "DCGM_EXPORTER_COLLECTORS")) }}{{ $env = append $env . }}{{ end -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}
