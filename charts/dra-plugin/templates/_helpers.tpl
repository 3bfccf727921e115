{{- define "dra-plugin.kubeletDir" -}}
{{- trimSuffix "/" .Values.kubeletRootDir -}}
{{- end -}}

{{- /* What cannot be honoured is said here, not ignored. */ -}}
{{- define "dra-plugin.refuse" -}}
{{- include "outrigger.refuseDevRoot" . -}}
{{- if (default dict .Values.updateStrategy.rollingUpdate).maxSurge -}}
{{- fail "updateStrategy.rollingUpdate.maxSurge: the pod that goes and the one that comes would both keep the file of prepared claims: use maxUnavailable" -}}
{{- end -}}
{{- with .Values.deviceClasses.extendedResourceName -}}
{{- if not (regexMatch `^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$` .) -}}
{{- fail (printf "deviceClasses.extendedResourceName: %q must be a name with a domain, like nvidia.com/gpu, or empty" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
