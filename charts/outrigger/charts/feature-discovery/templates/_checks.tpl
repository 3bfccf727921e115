{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "feature-discovery.check" -}}
{{- with include "outrigger.setting" (dict "root" . "name" "gfd.sleepInterval") -}}
{{- if not (regexMatch `^(infinite|([0-9]+(\.[0-9]+)?(ms|s|m|h))+)$` .) -}}
{{- $path := include "outrigger.settingPath" (dict "root" $ "name" "gfd.sleepInterval") -}}
{{- include "outrigger.problem" (dict "root" $ "full" true "path" $path "reason" (printf "%q is not a time" .)
  "instead" "write a time, such as 60s, or infinite" "remove" (list $path)) -}}
{{- end -}}
{{- end -}}
{{- $account := include "outrigger.serviceAccountName" . -}}
{{- if and .Values.presence.enabled (eq $account (include "feature-discovery.presenceServiceAccountName" .)) -}}
{{- include "outrigger.problem" (dict "root" . "path" "presence.serviceAccount.name" "remove" (list "presence.serviceAccount.name")
  "reason" (printf "both parts would use %q, but the admission policies need one account per part" $account) "instead" "choose another name") -}}
{{- end -}}
{{- if and (include "feature-discovery.policies" .) (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- include "outrigger.noPolicies" . -}}
{{- end -}}
{{- $fixed := list
  (dict "key" "nvidiaDriverRoot" "by" "nvidiaDriverRoot" "is" (include "outrigger.driverRoot" .))
  (dict "key" "gfd.oneshot" "is" false "why" "the kubelet restarts a pod of a DaemonSet that exits" "fix" "remove it")
  (dict "key" "gfd.machineTypeFile" "by" "GFD_MACHINE_TYPE_FILE in env" "is" (include "feature-discovery.machineTypeFile" .))
  (dict "key" "useNodeFeatureAPI" "by" "publish" "is" (eq .Values.publish "nodefeature")) -}}
{{- with include "outrigger.devRoot" . -}}
{{- $fixed = append $fixed (dict "key" "nvidiaDevRoot" "by" "nvidiaDevRoot" "is" .) -}}
{{- end -}}
{{- if eq .Values.publish "nfd-file" -}}
{{- $fixed = append $fixed (dict "key" "gfd.outputFile" "by" "outputFile" "is" .Values.outputFile) -}}
{{- end -}}
{{- include "outrigger.checkDevRoot" . -}}
{{- include "outrigger.checkResourceConfig" . -}}
{{- include "outrigger.checkConfig" (dict "root" . "fixed" $fixed) -}}
{{- end -}}
