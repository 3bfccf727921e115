{{- /* What cannot be honoured is said here, not ignored. */ -}}
{{- define "feature-discovery.refuse" -}}
{{- $account := include "outrigger.serviceAccountName" . -}}
{{- if and .Values.presence.enabled (eq $account (include "feature-discovery.presenceServiceAccountName" .)) -}}
{{- fail (printf "presence.serviceAccount.name: both parts would be %q, and what the one may write is refused to the other: name another one" $account) -}}
{{- end -}}
{{- if and (include "feature-discovery.policies" .) (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "admissionPolicy.create: Kubernetes %s has no ValidatingAdmissionPolicy of version v1, which came with 1.30: set it to false, and see in README.md what that means" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- $fixed := list
  (dict "key" "nvidiaDriverRoot" "by" "nvidiaDriverRoot" "is" (include "outrigger.driverRoot" .))
  (dict "key" "gfd.oneshot" "is" false "fix" "but a pod of a DaemonSet that ends is started again: remove it")
  (dict "key" "gfd.machineTypeFile" "by" "GFD_MACHINE_TYPE_FILE in env" "is" (include "feature-discovery.machineTypeFile" .))
  (dict "key" "useNodeFeatureAPI" "by" "publish" "is" (eq .Values.publish "nodefeature")) -}}
{{- with .Values.nvidiaDevRoot -}}
{{- $fixed = append $fixed (dict "key" "nvidiaDevRoot" "by" "nvidiaDevRoot" "is" .) -}}
{{- end -}}
{{- if eq .Values.publish "nfd-file" -}}
{{- $fixed = append $fixed (dict "key" "gfd.outputFile" "by" "outputFile" "is" .Values.outputFile) -}}
{{- end -}}
{{- include "outrigger.refuseDevRoot" . -}}
{{- include "outrigger.refuseResourceConfig" . -}}
{{- include "outrigger.refuseConfig" (dict "root" . "fixed" $fixed) -}}
{{- end -}}
