{{- define "validator.plugin" -}}
{{- if .Values.plugin.enabled -}}
{{- $resources := mergeOverwrite (deepCopy (default dict .Values.resources)) (dict "limits" (dict .Values.plugin.resource 1)) -}}
{{ include "validator.podTemplate" (dict "root" $ "name" "nvidia-device-plugin-validation" "part" .Values.plugin "validates" "device-plugin") }}
    securityContext:
      runAsNonRoot: true
      runAsUser: 65532
      runAsGroup: 65532
      seccompProfile:
        type: RuntimeDefault
    containers:
      - {{ include "validator.container" (dict "root" $ "env" (default list .Values.plugin.env) "resources" $resources) | nindent 8 | trim }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
{{- end }}
{{- end -}}
