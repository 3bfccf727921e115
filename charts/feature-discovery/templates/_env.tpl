{{- /* What both parts are told, of (dict "root" $ "port" its port). */ -}}
{{- define "feature-discovery.commonEnv" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
- name: SYS_ROOT
  value: /host/sys
{{- if not .root.Values.runtimeClassName }}
# The image asks for GPUs, which a default runtime of NVIDIA's would have to give
# it, and so would not start it before there is a driver.
- name: NVIDIA_VISIBLE_DEVICES
  value: void
{{- end }}
- name: LOG_LEVEL
  value: {{ .root.Values.logLevel }}
- name: LOG_FORMAT
  value: {{ .root.Values.logFormat }}
- name: LISTEN_ADDRESS
  value: {{ .root.Values.metrics.port | empty | ternary "" (printf ":%d" (int .port)) | quote }}
{{- end -}}

{{- /* Where the agent finds the driver and its config, and what it publishes where. */ -}}
{{- define "feature-discovery.ownEnv" -}}
- name: NVIDIA_DRIVER_ROOT
  value: {{ include "feature-discovery.driverRoot" . | quote }}
- name: DRIVER_ROOT_CTR_PATH
  value: {{ include "feature-discovery.driverRootCtrPath" . | quote }}
- name: PROC_ROOT
  value: /host/proc
{{- with .Values.nvidiaDevRoot }}
- name: NVIDIA_DEV_ROOT
  value: {{ . | quote }}
{{- end }}
- name: PUBLISH
  value: {{ .Values.publish }}
{{- if eq .Values.publish "nfd-file" }}
- name: GFD_OUTPUT_FILE
  value: {{ .Values.outputFile | quote }}
{{- end }}
{{- if eq .Values.publish "nodefeature" }}
# The object is in the pod's namespace, and goes with its DaemonSet.
- name: NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end }}
# What is in this file becomes a label, and so it is not for the writer of a
# config file to choose.
- name: GFD_MACHINE_TYPE_FILE
  value: {{ include "feature-discovery.machineTypeFile" . }}
# A pod of a DaemonSet that ends is started again, whatever a config file says.
- name: GFD_ONESHOT
  value: "false"
{{- if .Values.readyChain }}
- name: READY_CHAIN
  value: {{ join "," .Values.readyChain }}
- name: STARTUP_TAINT
  value: {{ .Values.startupTaint | quote }}
{{- end }}
- name: REPORT_EVENTS
  value: {{ .Values.events.enabled | quote }}
{{- if include "feature-discovery.configMapName" . }}
- name: CONFIG_FILE_SRCDIR
  value: {{ include "feature-discovery.configDir" . }}
{{- with .Values.config.default }}
- name: DEFAULT_CONFIG
  value: {{ . | quote }}
{{- end }}
{{- with .Values.config.fallbackStrategies }}
- name: FALLBACK_STRATEGIES
  value: {{ join "," . }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* What the user has chosen: a value that is null sets no variable, so that the
config file decides, or else the agent's default. */ -}}
{{- define "feature-discovery.choiceEnv" -}}
{{- $choices := list
  (list "MIG_STRATEGY" .Values.migStrategy)
  (list "NVIDIA_DRIVER_RESOURCE_CONFIG" .Values.resourceConfig)
  (list "FAIL_ON_INIT_ERROR" .Values.failOnInitError)
  (list "GFD_NO_TIMESTAMP" .Values.noTimestamp)
  (list "GFD_SLEEP_INTERVAL" .Values.sleepInterval)
  (list "DEVICE_DISCOVERY_STRATEGY" .Values.deviceDiscoveryStrategy) -}}
{{- range $choices }}
{{- if not (kindIs "invalid" (last .)) }}
- name: {{ first . }}
  value: {{ last . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* What the presence part alone is told. */ -}}
{{- define "feature-discovery.presenceEnv" -}}
- name: PRESENCE
  value: "true"
- name: HOST_ROOT
  value: /host
{{- end -}}

{{- /* The variables of a container, of (dict "root" $ "port" its port "more" its
own ones "theirs" the user's): the user's, and those of ours that the user does
not set. A name that is there twice is refused by server-side apply. */ -}}
{{- define "feature-discovery.env" -}}
{{- $ours := concat (include "feature-discovery.commonEnv" . | fromYamlArray) .more -}}
{{- $taken := list -}}
{{- range .theirs }}{{ $taken = append $taken .name }}{{ end -}}
{{- $env := list -}}
{{- range $ours }}{{ if not (has .name $taken) }}{{ $env = append $env . }}{{ end }}{{ end -}}
{{- concat $env (default list .theirs) | toYaml -}}
{{- end -}}
