{{- /* The notes on values of NVIDIA's charts that our charts do not have. Empty if none is set.
Argument: (dict "root" $ "notes" a list of (list "path.of.value" "meaning")). */ -}}
{{- define "outrigger.foreignNotes" -}}
{{- $lines := list -}}
{{- range concat .notes (include "outrigger.foreignEverywhere" . | fromYamlArray) -}}
{{- if include "outrigger.setting" (dict "root" $.root "name" (first .)) -}}
{{- $lines = append $lines (printf "  %s: %s" (first .) (last .)) -}}
{{- end -}}
{{- end -}}
{{- with $lines }}
Values of NVIDIA's chart that mean something else here:
{{ join "\n" . }}
{{ end -}}
{{- end -}}

{{- /* Values that have no effect in any chart. */ -}}
{{- define "outrigger.foreignEverywhere" -}}
- [nfd, not needed; Node Feature Discovery is not installed. You can install it separately]
- [allowDefaultNamespace, not needed; every namespace is allowed]
- [componentSelectorLabels, "not needed; the DaemonSets select their pods by different labels"]
- [configManager, not needed; the agents follow the config themselves without a sidecar]
- [logVerbosity, use logLevel]
- [nvidiaDriverCapabilities, not needed; the pods use the driver without NVIDIA's runtime]
{{- end -}}
