{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "device-plugin.check" -}}
{{- if .Values.legacyDaemonsetAPI -}}
{{- fail "legacyDaemonsetAPI: Kubernetes 1.16 removed the API extensions/v1beta1, and this chart needs 1.26; remove the value" -}}
{{- end -}}
{{- if not (or .Values.devicePlugin.enabled (include "device-plugin.mps" .)) -}}
{{- fail "devicePlugin.enabled: it is false and the MPS control daemons are disabled, so nothing would run; set mps.enabled, or remove the value" -}}
{{- end -}}
{{- $fixed := list
  (dict "key" "nvidiaDriverRoot" "by" "nvidiaDriverRoot" "is" (include "outrigger.driverRoot" .))
  (dict "key" "nvidiaDevRoot" "by" "nvidiaDevRoot" "is" (default "" .Values.nvidiaDevRoot))
  (dict "key" "plugin.nvidiaCTKPath" "by" "cdi.nvidiaHookPath" "is" (default "" .Values.cdi.nvidiaHookPath))
  (dict "key" "mpsRoot" "by" "mps.root" "is" .Values.mps.root) -}}
{{- with .Values.deviceListStrategy -}}
{{- $fixed = append $fixed (dict "key" "plugin.deviceListStrategy" "is" .
  "fix" "but the chart's value takes precedence; set deviceListStrategy to null to let the configs choose") -}}
{{- end -}}
{{- include "outrigger.checkDevRoot" . -}}
{{- include "outrigger.checkResourceConfig" . -}}
{{- include "outrigger.checkConfig" (dict "root" . "fixed" $fixed) -}}
{{- end -}}
