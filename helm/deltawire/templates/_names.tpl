{{/* Names and labels. Every template here also works when a parent chart includes it: the values are then found under `deltawire`. */}}

{{- define "deltawire.fullname" -}}
{{- $v := .Values.deltawire | default .Values -}}
{{- if $v.fullnameOverride -}}
{{- $v.fullnameOverride -}}
{{- else if contains "deltawire" .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-deltawire" (.Release.Name | trunc 35 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "deltawire.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "deltawire.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* (dict "root" . "component" NAME) -> the labels that never change in the life of a release */}}
{{- define "deltawire.selectorLabels" -}}
app.kubernetes.io/name: deltawire
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "deltawire.labels" -}}
{{ include "deltawire.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | quote }}
app.kubernetes.io/part-of: deltawire
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "deltawire.image" -}}
{{- $i := .image -}}
{{- if $i.digest -}}
{{ $i.repository }}@{{ $i.digest }}
{{- else -}}
{{ $i.repository }}:{{ $i.tag }}
{{- end -}}
{{- end -}}
