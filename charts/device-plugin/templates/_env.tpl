{{- /* One variable for each choice that is made; the agent has a default for the others. */ -}}
{{- define "device-plugin.env" -}}
- name: NVIDIA_DRIVER_ROOT
  value: {{ .Values.nvidiaDriverRoot | quote }}
- name: DRIVER_ROOT_CTR_PATH
  value: {{ include "device-plugin.driverRootCtrPath" . | quote }}
- name: PROC_ROOT
  value: /host/proc
- name: SYS_ROOT
  value: /host/sys
- name: KUBELET_SOCKET
  value: {{ include "device-plugin.devicePluginsDir" . }}/kubelet.sock
- name: LISTEN_ADDRESS
  value: {{ if .Values.metrics.port }}":{{ .Values.metrics.port }}"{{ else }}""{{ end }}
- name: LOG_LEVEL
  value: {{ .Values.logLevel }}
- name: LOG_FORMAT
  value: {{ .Values.logFormat }}
{{- if not (kindIs "invalid" .Values.migStrategy) }}
- name: MIG_STRATEGY
  value: {{ .Values.migStrategy | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.failOnInitError) }}
- name: FAIL_ON_INIT_ERROR
  value: {{ .Values.failOnInitError | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.deviceListStrategy) }}
- name: DEVICE_LIST_STRATEGY
  value: {{ kindIs "slice" .Values.deviceListStrategy | ternary (.Values.deviceListStrategy | join ",") .Values.deviceListStrategy | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.deviceIDStrategy) }}
- name: DEVICE_ID_STRATEGY
  value: {{ .Values.deviceIDStrategy | quote }}
{{- end }}
{{- if not (kindIs "invalid" .Values.compatWithCPUManager) }}
- name: PASS_DEVICE_SPECS
  value: {{ .Values.compatWithCPUManager | quote }}
{{- end }}
{{- end -}}

{{- /* The user's variables, and those of ours that the user does not set: a name
that is there twice is refused by server-side apply. */ -}}
{{- define "device-plugin.allEnv" -}}
{{- $taken := list -}}
{{- range .Values.env }}{{ $taken = append $taken .name }}{{ end -}}
{{- $env := list -}}
{{- range include "device-plugin.env" . | fromYamlArray -}}
{{- if not (has .name $taken) }}{{ $env = append $env . }}{{ end -}}
{{- end -}}
{{- concat $env .Values.env | toYaml -}}
{{- end -}}
