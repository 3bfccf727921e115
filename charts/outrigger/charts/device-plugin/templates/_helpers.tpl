{{- define "device-plugin.devicePluginsDir" -}}
{{- printf "%s/device-plugins" (include "outrigger.kubeletRootDir" .) -}}
{{- end -}}

{{- /* The MPS control daemons run if the values enable them, or if a config file
shares GPUs with MPS. */ -}}
{{- define "device-plugin.mps" -}}
{{- if kindIs "bool" .Values.mps.enabled -}}
{{- if .Values.mps.enabled }}true{{ end -}}
{{- else -}}
{{- $shared := "" -}}
{{- range (include "outrigger.config" . | fromYaml).map -}}
{{- $shared = include "outrigger.configValue" (dict "text" . "path" (list "sharing" "mps")) | default $shared -}}
{{- end -}}
{{- if $shared }}true{{ end -}}
{{- end -}}
{{- end -}}

{{- define "device-plugin.mpsName" -}}
{{- include "outrigger.nameWith" (dict "root" . "suffix" "mps-control-daemon") -}}
{{- end -}}

{{- /* The device list strategy if neither the values nor the config set one. The kubelet passes CDI
devices on since Kubernetes 1.29, where DevicePluginCDIDevices is on by default. */ -}}
{{- define "device-plugin.defaultStrategy" -}}
{{- if eq "false" (include "outrigger.setting" (dict "root" . "name" "cdi.enabled")) -}}
envvar
{{- else -}}
{{- include "device-plugin.passesCDI" . | empty | ternary "cdi-annotations" "cdi-cri" -}}
{{- end -}}
{{- end -}}

{{- define "device-plugin.passesCDI" -}}
{{- if semverCompare ">=1.29.0-0" .Capabilities.KubeVersion.Version }}true{{ end -}}
{{- end -}}

{{- define "device-plugin.hookPath" -}}
{{- include "outrigger.fixed" (dict "root" . "name" "cdi.nvidiaHookPath" "key" "plugin.nvidiaCTKPath") -}}
{{- end -}}
