{{- define "dra-plugin.kubeletDir" -}}
{{- include "outrigger.kubeletRootDir" . -}}
{{- end -}}

{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "dra-plugin.check" -}}
{{- include "outrigger.checkDevRoot" . -}}
{{- if dig "rollingUpdate" "maxSurge" "" (include "outrigger.updateStrategy" . | fromYaml) -}}
{{- include "outrigger.problem" (dict "root" . "path" "updateStrategy.rollingUpdate.maxSurge" "reason" "the old and the new pod of a node would both write the list of prepared claims"
  "instead" "use maxUnavailable" "remove" (list "updateStrategy.rollingUpdate.maxSurge")) -}}
{{- end -}}
{{- with .Values.deviceClasses.extendedResourceName -}}
{{- if not (regexMatch `^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$` .) -}}
{{- include "outrigger.problem" (dict "root" $ "path" "deviceClasses.extendedResourceName" "reason" (printf "%q is not a name with a domain" .)
  "instead" "write a name such as nvidia.com/gpu, or remove it" "remove" (list "deviceClasses.extendedResourceName")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
