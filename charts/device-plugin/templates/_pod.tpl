{{- /* What the pods of both DaemonSets are to the cluster, of (dict "root" $ "api"
whether they talk to the API server). */ -}}
{{- define "device-plugin.pod" -}}
serviceAccountName: {{ include "device-plugin.serviceAccountName" .root }}
{{- if .api }}
# For the Node's label or for Events: README.md, "Privileges and why".
automountServiceAccountToken: true
{{- else }}
# The agent never talks to the API server.
automountServiceAccountToken: false
{{- end }}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .root.Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
