{{- /* Whether the parent chart renders the objects of this one. Only the chart outrigger defines this as
true: in Helm, a parent's template replaces those of its dependencies. */ -}}
{{- define "outrigger.parentRenders" -}}{{- end -}}

{{- /* The objects of the chart "name", if the chart renders them itself. Argument: (dict "root" $
"name" …). */ -}}
{{- define "outrigger.objects" -}}
{{- if not (or (include "outrigger.parentRenders" .root) (eq "false" (toString .root.Values.enabled))) -}}
{{- include (printf "%s.objects" .name) .root -}}
{{- include "outrigger.report" .root -}}
{{- end -}}
{{- end -}}

{{- /* Several templates with objects. Argument: (dict "root" $ "parts" a list of their names). */ -}}
{{- define "outrigger.parts" -}}
{{- $root := .root -}}
{{- range .parts }}
{{- with include . $root | trim }}
---
{{ . }}
{{- end }}
{{- end }}
{{- end -}}
