{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "device-plugin.check" -}}
{{- if .Values.legacyDaemonsetAPI -}}
{{- include "outrigger.problem" (dict "root" . "path" "legacyDaemonsetAPI" "remove" (list "legacyDaemonsetAPI")
  "reason" "Kubernetes 1.16 removed the API extensions/v1beta1, and this chart needs 1.26") -}}
{{- end -}}
{{- if not (or .Values.devicePlugin.enabled (include "device-plugin.mps" .)) -}}
{{- include "outrigger.problem" (dict "root" . "path" "devicePlugin.enabled" "reason" "it is false and the MPS control daemons are disabled, so nothing would run"
  "instead" "set mps.enabled, or remove the value" "remove" (list "devicePlugin.enabled")) -}}
{{- end -}}
{{- $fixed := list
  (dict "key" "nvidiaDriverRoot" "by" "nvidiaDriverRoot" "is" (include "outrigger.driverRoot" .))
  (dict "key" "nvidiaDevRoot" "by" "nvidiaDevRoot" "is" (include "outrigger.devRoot" .))
  (dict "key" "plugin.nvidiaCTKPath" "by" "cdi.nvidiaHookPath" "is" (include "device-plugin.hookPath" .))
  (dict "key" "mpsRoot" "by" "mps.root" "is" .Values.mps.root) -}}
{{- with .Values.deviceListStrategy -}}
{{- $fixed = append $fixed (dict "key" "plugin.deviceListStrategy" "is" .
  "why" "the chart's value takes precedence" "fix" "set deviceListStrategy to null to let the configs choose") -}}
{{- end -}}
{{- include "device-plugin.checkCDI" . -}}
{{- include "outrigger.checkDevRoot" . -}}
{{- include "outrigger.checkResourceConfig" . -}}
{{- include "outrigger.checkConfig" (dict "root" . "fixed" $fixed) -}}
{{- end -}}

{{- /* Rejects cdi-cri as the only strategy if the kubelet drops CDI devices without an error. */ -}}
{{- define "device-plugin.checkCDI" -}}
{{- if not (include "device-plugin.passesCDI" .) -}}
{{- $why := printf "Kubernetes %s gives containers no CDI devices by default, which needs 1.29" .Capabilities.KubeVersion.Version -}}
{{- $instead := "use cdi-annotations, or [cdi-cri, cdi-annotations] if its feature gate DevicePluginCDIDevices is on" -}}
{{- if eq "cdi-cri" (join "," .Values.deviceListStrategy) -}}
{{- include "outrigger.problem" (dict "root" . "path" "deviceListStrategy" "reason" $why "instead" $instead "set" (dict "deviceListStrategy" "cdi-annotations")) -}}
{{- end -}}
{{- range $name, $text := (include "outrigger.config" . | fromYaml).map -}}
{{- if has (include "outrigger.configValue" (dict "text" $text "path" (list "flags" "plugin" "deviceListStrategy"))) (list `"cdi-cri"` `["cdi-cri"]`) -}}
{{- include "outrigger.problem" (dict "root" $ "full" true "path" (printf "%s.map.%s" (include "outrigger.configPath" $) $name)
  "reason" (printf "flags.plugin.deviceListStrategy: %s" $why) "instead" $instead) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
