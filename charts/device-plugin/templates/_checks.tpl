{{- /* What cannot be honoured is said here, not ignored. */ -}}
{{- define "device-plugin.refuse" -}}
{{- if .Values.legacyDaemonsetAPI -}}
{{- fail "legacyDaemonsetAPI: the API extensions/v1beta1 for DaemonSets is gone since Kubernetes 1.16, and this chart needs 1.26: remove the value" -}}
{{- end -}}
{{- if not (or .Values.devicePlugin.enabled (include "device-plugin.mps" .)) -}}
{{- fail "devicePlugin.enabled: it is false, and no daemons of MPS are asked for: nothing would run; set mps.enabled, or remove the value" -}}
{{- end -}}
{{- $fixed := list
  (dict "key" "nvidiaDriverRoot" "by" "nvidiaDriverRoot" "is" (include "outrigger.driverRoot" .))
  (dict "key" "nvidiaDevRoot" "by" "nvidiaDevRoot" "is" (default "" .Values.nvidiaDevRoot))
  (dict "key" "plugin.nvidiaCTKPath" "by" "cdi.nvidiaHookPath" "is" (default "" .Values.cdi.nvidiaHookPath))
  (dict "key" "mpsRoot" "by" "mps.root" "is" .Values.mps.root) -}}
{{- with .Values.deviceListStrategy -}}
{{- $fixed = append $fixed (dict "key" "plugin.deviceListStrategy" "is" .
  "fix" "but the chart's value goes before it: set deviceListStrategy to null to let the configs choose") -}}
{{- end -}}
{{- include "outrigger.refuseDevRoot" . -}}
{{- include "outrigger.refuseResourceConfig" . -}}
{{- include "outrigger.refuseConfig" (dict "root" . "fixed" $fixed) -}}
{{- end -}}
