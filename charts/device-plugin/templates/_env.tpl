{{- /* The variables of both the plugin and the MPS control daemons. */ -}}
{{- define "device-plugin.commonEnv" -}}
{{ include "outrigger.driverEnv" . }}
# Set even if empty: the author of a config file must not choose what the runtime
# mounts from the host and runs there as root.
- name: NVIDIA_DEV_ROOT
  value: {{ include "outrigger.devRoot" . | quote }}
- name: NVIDIA_CDI_HOOK_PATH
  value: {{ include "device-plugin.hookPath" . | quote }}
- name: MPS_ROOT
  value: {{ .Values.mps.root | quote }}
{{- with include "outrigger.configEnv" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "device-plugin.choices" -}}
{{- include "outrigger.choiceEnv" (list
  (list "MIG_STRATEGY" (include "outrigger.setting" (dict "root" . "name" "migStrategy")))
  (list "NVIDIA_DRIVER_RESOURCE_CONFIG" (include "outrigger.setting" (dict "root" . "name" "resourceConfig")))
  (list "SHARED_DEVICES_ALLOCATION_POLICY" .Values.sharedDevicesAllocationPolicy)
  (list "FAIL_ON_INIT_ERROR" .Values.failOnInitError)
  (list "DEVICE_DISCOVERY_STRATEGY" .Values.deviceDiscoveryStrategy)
  (list "DEVICE_LIST_STRATEGY" .Values.deviceListStrategy)
  (list "DEFAULT_DEVICE_LIST_STRATEGY" (.Values.deviceListStrategy | empty | ternary (include "device-plugin.defaultStrategy" .) ""))
  (list "DEVICE_ID_STRATEGY" .Values.deviceIDStrategy)
  (list "PASS_DEVICE_SPECS" .Values.compatWithCPUManager)
  (list "GDRCOPY_ENABLED" .Values.gdrcopyEnabled)
  (list "GDS_ENABLED" .Values.gdsEnabled)
  (list "MOFED_ENABLED" .Values.mofedEnabled)
  (list "IMEX_CHANNEL_IDS" .Values.imex.channelIDs)
  (list "IMEX_REQUIRED" .Values.imex.required)
  (list "TOOLKIT_INSTALL_DIR" (include "outrigger.setting" (dict "root" . "name" "toolkit.installDir")))
  (list "CDI_FEATURE_FLAGS" .Values.cdi.featureFlags)
  (list "CDI_DISABLE_HOOKS" .Values.cdi.disableHooks)) -}}
{{- end -}}

{{- /* The variables of the plugin only, for registration and Events. */ -}}
{{- define "device-plugin.pluginEnv" -}}
{{- if include "device-plugin.cleansUp" . }}
# When this DaemonSet is deleted, the agent removes its CDI specs.
- name: DAEMONSET_NAME
  value: {{ include "outrigger.fullname" . }}
- name: NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}
- name: KUBELET_SOCKET
  value: {{ include "device-plugin.devicePluginsDir" . }}/kubelet.sock
- name: REPORT_EVENTS
  value: {{ .Values.events.enabled | quote }}
{{- end -}}

{{- /* The user's variables, from env and from the values of NVIDIA's chart. The two variables for
NVIDIA's runtime need a runtime class. */ -}}
{{- define "device-plugin.userEnv" -}}
{{- $env := default list .Values.env -}}
{{- $names := list -}}
{{- range $env }}{{ $names = append $names .name }}{{ end -}}
{{- range dig "main" "env" list (default dict .Values.devicePlugin.containers) -}}
{{- $runtimes := has .name (list "NVIDIA_VISIBLE_DEVICES" "NVIDIA_DRIVER_CAPABILITIES") -}}
{{- if not (or (has .name $names) (and $runtimes (not $.Values.runtimeClassName))) }}{{ $env = append $env . }}{{ end -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}

{{- /* The variables of a container. Argument: (dict "root" $ "port" its port "own" its own
variables). */ -}}
{{- define "device-plugin.env" -}}
{{- $more := concat (include "device-plugin.commonEnv" .root | fromYamlArray) .own (include "device-plugin.choices" .root | fromYamlArray) -}}
{{- include "outrigger.env" (dict "root" .root "port" .port "hostNetwork" .hostNetwork "more" $more "theirs" (include "device-plugin.userEnv" .root | fromYamlArray)) -}}
{{- end -}}
