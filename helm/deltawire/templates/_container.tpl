{{/* A number out of YAML is a float: print whole ones without exponent, everything else as it is. */}}
{{- define "deltawire.scalar" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- int64 . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* map of option names -> environment variables: `max-links: 64` is DELTAWIRE_MAX_LINKS=64 */}}
{{- define "deltawire.optionsEnv" -}}
{{- range $name, $value := . }}
- name: DELTAWIRE_{{ $name | upper | replace "-" "_" }}
  value: {{ include "deltawire.scalar" $value | quote }}
{{- end }}
{{- end -}}

{{/* Where turns go: the value, else the server of this release when it runs, else the command's own default (nothing is set). */}}
{{- define "deltawire.upstream" -}}
{{- $v := .Values.deltawire | default .Values -}}
{{- if $v.proxy.upstream -}}
{{- $v.proxy.upstream -}}
{{- else if $v.server.enabled -}}
{{- printf "http://%s-server:%v/v1" (include "deltawire.fullname" .) (include "deltawire.scalar" $v.server.service.port) -}}
{{- end -}}
{{- end -}}

{{/* (dict "root" . "listen" HOST:PORT "admin" HOST:PORT) */}}
{{- define "deltawire.proxyEnv" -}}
{{- $v := .root.Values.deltawire | default .root.Values -}}
{{- $p := $v.proxy -}}
{{- if and $p.redis.existingSecret (not $p.secret.existingSecret) -}}
{{- fail "proxy.redis.existingSecret needs proxy.secret.existingSecret: digests that replicas share are keyed with a secret that they share" -}}
{{- end -}}
- name: DELTAWIRE_LISTEN
  value: {{ .listen | quote }}
- name: DELTAWIRE_ADMIN
  value: {{ .admin | quote }}
{{- with include "deltawire.upstream" .root }}
- name: DELTAWIRE_UPSTREAM
  value: {{ . | quote }}
{{- end }}
- name: DELTAWIRE_DRAIN
  value: {{ printf "%ss" (include "deltawire.scalar" $p.drainSeconds) | quote }}
{{- with $p.redis.existingSecret }}
- name: DELTAWIRE_STATE
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $p.redis.key }}
{{- end }}
{{- with $p.secret.existingSecret }}
- name: DELTAWIRE_SECRET
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $p.secret.key }}
{{- end }}
{{- include "deltawire.optionsEnv" $p.options }}
{{- with $p.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* (dict "probes" .Values.probes "port" NAME "ready" PATH): startup and readiness ask the one path, liveness asks /healthz,
     so that a draining or wedged process leaves the endpoints without being killed for it. */}}
{{- define "deltawire.probes" -}}
startupProbe:
  httpGet:
    path: {{ .ready }}
    port: {{ .port }}
  {{- toYaml .probes.startup | nindent 2 }}
readinessProbe:
  httpGet:
    path: {{ .ready }}
    port: {{ .port }}
  {{- toYaml .probes.readiness | nindent 2 }}
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ .port }}
  {{- toYaml .probes.liveness | nindent 2 }}
{{- end -}}

{{/*
The sidecar, for your own pod:

  initContainers:
    {{- include "deltawire.sidecar" . | nindent 4 }}

An init container with restartPolicy Always starts before the pod's containers, holds them back until its startup probe passes, ends after
them, and does not keep a Job alive.
*/}}
{{- define "deltawire.sidecar" -}}
{{- $v := .Values.deltawire | default .Values -}}
{{- $s := $v.sidecar -}}
{{- $listen := printf "%s:%s" $s.listen.host (include "deltawire.scalar" $s.listen.port) -}}
{{- $admin := printf "%s:%s" $s.admin.host (include "deltawire.scalar" $s.admin.port) -}}
- name: {{ $s.name }}
  image: {{ include "deltawire.image" $v }}
  imagePullPolicy: {{ $v.image.pullPolicy }}
  restartPolicy: Always
  args: [proxy]
  env:
    {{- include "deltawire.proxyEnv" (dict "root" . "listen" $listen "admin" $admin) | nindent 4 }}
  ports:
    - name: deltawire-admin
      containerPort: {{ $s.admin.port }}
      protocol: TCP
  {{- include "deltawire.probes" (dict "probes" $v.probes "port" "deltawire-admin" "ready" "/readyz") | nindent 2 }}
  resources:
    {{- toYaml $s.resources | nindent 4 }}
  securityContext:
    {{- toYaml $v.securityContext | nindent 4 }}
  {{- with $v.proxy.volumeMounts }}
  volumeMounts:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* For the container that talks through the sidecar: env: {{- include "deltawire.clientEnv" . | nindent N }} */}}
{{- define "deltawire.clientEnv" -}}
{{- $v := .Values.deltawire | default .Values -}}
- name: OPENAI_BASE_URL
  value: http://127.0.0.1:{{ include "deltawire.scalar" $v.sidecar.listen.port }}/v1
{{- end -}}

{{/* The least that the pod of a sidecar needs, in seconds. */}}
{{- define "deltawire.terminationGracePeriodSeconds" -}}
{{- $v := .Values.deltawire | default .Values -}}
{{- add (int64 $v.proxy.drainSeconds) (int64 $v.graceMarginSeconds) -}}
{{- end -}}

{{/* Endpoints go on routing for some seconds after a pod began to end, and a process that drains refuses new turns: so it is told later. Through
     Python, because the `sleep` action is not on in 1.29. */}}
{{- define "deltawire.preStop" -}}
lifecycle:
  preStop:
    exec:
      command: [python, -c, "import time; time.sleep({{ int64 . }})"]
{{- end -}}
