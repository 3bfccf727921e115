{{- define "dra-plugin.kubeletDir" -}}
{{- include "outrigger.kubeletRootDir" . -}}
{{- end -}}

{{- /* Rejects values that the agent cannot follow. */ -}}
{{- define "dra-plugin.check" -}}
{{- include "outrigger.checkDevRoot" . -}}
{{- if dig "rollingUpdate" "maxSurge" "" (include "outrigger.updateStrategy" . | fromYaml) -}}
{{- fail "updateStrategy.rollingUpdate.maxSurge: the old and the new pod of a node would both write the list of prepared claims; use maxUnavailable" -}}
{{- end -}}
{{- with .Values.deviceClasses.extendedResourceName -}}
{{- if not (regexMatch `^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$` .) -}}
{{- fail (printf "deviceClasses.extendedResourceName: %q must be a name with a domain, such as nvidia.com/gpu, or empty" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
