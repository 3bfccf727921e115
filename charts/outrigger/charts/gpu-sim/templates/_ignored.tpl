{{- /* Written by: go test ./... -update, from values.schema.json. */ -}}
{{- define "gpu-sim.withoutEffect" -}}
{{- end -}}
