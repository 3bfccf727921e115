{{- /* What the pods of both DaemonSets are to the cluster, of (dict "root" $
"account" the service account "api" whether they talk to the API server). */ -}}
{{- define "feature-discovery.pod" -}}
serviceAccountName: {{ .account }}
{{- if .api }}
# The token names pod and node, which the admission policy goes by.
automountServiceAccountToken: true
{{- else }}
# The agent never talks to the API server.
automountServiceAccountToken: false
{{- end }}
enableServiceLinks: false
# It ends within two seconds of being asked to.
terminationGracePeriodSeconds: 5
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* The tolerations, with that of the start-up taint: pods that wait for it to go
would wait for themselves. */ -}}
{{- define "feature-discovery.tolerations" -}}
{{- $all := default list .Values.tolerations -}}
{{- if and .Values.readyChain .Values.startupTaint -}}
{{- $key := splitList ":" .Values.startupTaint | first -}}
{{- $tolerated := false -}}
{{- range $all }}{{ if has (default "" .key) (list "" $key) }}{{ $tolerated = true }}{{ end }}{{ end -}}
{{- if not $tolerated }}{{ $all = append $all (dict "key" $key "operator" "Exists") }}{{ end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{- /* What a container serves, on a port. */ -}}
{{- define "feature-discovery.probes" -}}
ports:
  - name: metrics
    containerPort: {{ . }}
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
  periodSeconds: 5
livenessProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 20
  failureThreshold: 3
{{- end -}}
