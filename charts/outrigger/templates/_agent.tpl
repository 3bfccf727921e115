{{- /* The agents' charts render nothing themselves: the templates in the folder agents do, with
the values that all agents share. See templates/common/_install.tpl. */ -}}
{{- define "outrigger.parentRenders" -}}true{{- end -}}

{{- /* The objects of an agent, of (dict "root" $ "name" of its chart "key" of its values). Empty if
the values disable it. */ -}}
{{- define "outrigger.agent" -}}
{{- with get .root.Subcharts .key -}}
{{- $chart := dict "Name" $.name "Version" .Chart.Version "AppVersion" .Chart.AppVersion "Annotations" .Chart.Annotations -}}
{{- $agent := dict "Chart" $chart "Release" .Release "Capabilities" .Capabilities "Values" .Values -}}
{{- include (printf "%s.objects" $.name) $agent -}}
{{- end -}}
{{- end -}}
