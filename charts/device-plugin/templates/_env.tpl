{{- /* Where the agent finds the node, itself and its config. */ -}}
{{- define "device-plugin.hostEnv" -}}
- name: NVIDIA_DRIVER_ROOT
  value: {{ include "device-plugin.driverRoot" . | quote }}
- name: DRIVER_ROOT_CTR_PATH
  value: {{ include "device-plugin.driverRootCtrPath" . | quote }}
# Set although they are empty: what the runtime takes from the host, and runs as
# root on it, is not for the writer of a config file to choose.
- name: NVIDIA_DEV_ROOT
  value: {{ .Values.nvidiaDevRoot | default "" | quote }}
- name: NVIDIA_CDI_HOOK_PATH
  value: {{ .Values.cdi.nvidiaHookPath | default "" | quote }}
- name: PROC_ROOT
  value: /host/proc
- name: SYS_ROOT
  value: /host/sys
- name: MPS_ROOT
  value: {{ .Values.mps.root | quote }}
{{- if not .Values.runtimeClassName }}
# The image asks for GPUs, which a default runtime of NVIDIA's would have to give
# it, and so would not start it before there is a driver.
- name: NVIDIA_VISIBLE_DEVICES
  value: void
{{- end }}
- name: LOG_LEVEL
  value: {{ .Values.logLevel }}
- name: LOG_FORMAT
  value: {{ .Values.logFormat }}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- if include "device-plugin.configMapName" . }}
- name: CONFIG_FILE_SRCDIR
  value: {{ include "device-plugin.configDir" . }}
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
{{- define "device-plugin.choiceEnv" -}}
{{- $choices := list
  (list "MIG_STRATEGY" .Values.migStrategy)
  (list "NVIDIA_DRIVER_RESOURCE_CONFIG" .Values.resourceConfig)
  (list "SHARED_DEVICES_ALLOCATION_POLICY" .Values.sharedDevicesAllocationPolicy)
  (list "FAIL_ON_INIT_ERROR" .Values.failOnInitError)
  (list "DEVICE_DISCOVERY_STRATEGY" .Values.deviceDiscoveryStrategy)
  (list "DEVICE_LIST_STRATEGY" .Values.deviceListStrategy)
  (list "DEVICE_ID_STRATEGY" .Values.deviceIDStrategy)
  (list "PASS_DEVICE_SPECS" .Values.compatWithCPUManager)
  (list "GDRCOPY_ENABLED" .Values.gdrcopyEnabled)
  (list "GDS_ENABLED" .Values.gdsEnabled)
  (list "MOFED_ENABLED" .Values.mofedEnabled)
  (list "IMEX_CHANNEL_IDS" .Values.imex.channelIDs)
  (list "IMEX_REQUIRED" .Values.imex.required)
  (list "CDI_FEATURE_FLAGS" .Values.cdi.featureFlags)
  (list "CDI_DISABLE_HOOKS" .Values.cdi.disableHooks) -}}
{{- range $choices }}
{{- $value := last . }}
{{- if not (or (kindIs "invalid" $value) (and (kindIs "slice" $value) (empty $value))) }}
- name: {{ first . }}
  value: {{ kindIs "slice" $value | ternary (join "," $value) $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* What the plugin alone needs: it registers, and tells what happens to GPUs. */ -}}
{{- define "device-plugin.pluginEnv" -}}
- name: KUBELET_SOCKET
  value: {{ include "device-plugin.devicePluginsDir" . }}/kubelet.sock
- name: REPORT_EVENTS
  value: {{ .Values.events.enabled | quote }}
{{- end -}}

{{- /* The variables of a container, of (dict "root" $ "port" its port "more" its
own ones): the user's, and those of ours that the user does not set. A name that
is there twice is refused by server-side apply. */ -}}
{{- define "device-plugin.env" -}}
{{- $address := .root.Values.metrics.port | empty | ternary "" (printf ":%d" (int .port)) -}}
{{- $listen := dict "name" "LISTEN_ADDRESS" "value" $address -}}
{{- $ours := concat (include "device-plugin.hostEnv" .root | fromYamlArray) .more (list $listen)
  (include "device-plugin.choiceEnv" .root | fromYamlArray) -}}
{{- $taken := list -}}
{{- range .root.Values.env }}{{ $taken = append $taken .name }}{{ end -}}
{{- $env := list -}}
{{- range $ours }}{{ if not (has .name $taken) }}{{ $env = append $env . }}{{ end }}{{ end -}}
{{- concat $env (default list .root.Values.env) | toYaml -}}
{{- end -}}
