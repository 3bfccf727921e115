{{- /* Written by: go test ./... -update, from values.schema.json. */ -}}
{{- define "dcgm-exporter.withoutEffect" -}}
{{- end -}}
