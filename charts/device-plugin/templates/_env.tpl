{{- /* The variables of both the plugin and the MPS control daemons. */ -}}
{{- define "device-plugin.commonEnv" -}}
{{ include "outrigger.driverEnv" . }}
# Set even if empty: the author of a config file must not choose what the runtime
# mounts from the host and runs there as root.
- name: NVIDIA_DEV_ROOT
  value: {{ .Values.nvidiaDevRoot | default "" | quote }}
- name: NVIDIA_CDI_HOOK_PATH
  value: {{ .Values.cdi.nvidiaHookPath | default "" | quote }}
- name: MPS_ROOT
  value: {{ .Values.mps.root | quote }}
{{- with include "outrigger.configEnv" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "device-plugin.choices" -}}
{{- include "outrigger.choiceEnv" (list
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
  (list "CDI_DISABLE_HOOKS" .Values.cdi.disableHooks)) -}}
{{- end -}}

{{- /* The variables of the plugin only, for registration and Events. */ -}}
{{- define "device-plugin.pluginEnv" -}}
- name: KUBELET_SOCKET
  value: {{ include "device-plugin.devicePluginsDir" . }}/kubelet.sock
- name: REPORT_EVENTS
  value: {{ .Values.events.enabled | quote }}
{{- end -}}

{{- /* The variables of a container, of (dict "root" $ "port" its port "own" its own
variables). */ -}}
{{- define "device-plugin.env" -}}
{{- $more := concat (include "device-plugin.commonEnv" .root | fromYamlArray) .own (include "device-plugin.choices" .root | fromYamlArray) -}}
{{- include "outrigger.env" (dict "root" .root "port" .port "more" $more "theirs" .root.Values.env) -}}
{{- end -}}
