{{/* What every pod of this chart has in common. (dict "root" . "component" NAME "grace" SECONDS "values" MAP); MAP: the component's own values */}}
{{- define "deltawire.podMetadata" -}}
labels:
  {{- include "deltawire.selectorLabels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Values.image.tag | quote }}
  app.kubernetes.io/part-of: deltawire
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "deltawire.podSpec" -}}
serviceAccountName: {{ include "deltawire.serviceAccountName" .root }}
automountServiceAccountToken: false
# A Service called `deltawire` would put DELTAWIRE_PORT=tcp://... and the like into every pod, among the options.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .grace }}
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "deltawire.selectorLabels" . | nindent 8 }}
{{- with .values.volumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "deltawire.deploymentSpec" -}}
{{- if not .values.autoscaling.enabled -}}
replicas: {{ .values.replicas }}
{{ end -}}
selector:
  matchLabels:
    {{- include "deltawire.selectorLabels" . | nindent 4 }}
strategy:
  type: RollingUpdate
  rollingUpdate:
    maxUnavailable: 0
    maxSurge: 1
{{- end -}}

{{- define "deltawire.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "deltawire.fullname" .root }}-{{ .component }}
  labels:
    {{- include "deltawire.labels" . | nindent 4 }}
  {{- with .values.service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .values.service.type }}
  sessionAffinity: {{ .values.service.sessionAffinity }}
  selector:
    {{- include "deltawire.selectorLabels" . | nindent 4 }}
  ports:
    - name: http
      port: {{ .values.service.port }}
      targetPort: http
      protocol: TCP
      appProtocol: http
{{- end -}}

{{- define "deltawire.pdb" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "deltawire.fullname" .root }}-{{ .component }}
  labels:
    {{- include "deltawire.labels" . | nindent 4 }}
spec:
  # Never minAvailable: with one replica that would block every node drain for good.
  maxUnavailable: {{ .values.pdb.maxUnavailable }}
  # A pod that is not ready serves nobody, so evicting it costs nothing.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "deltawire.selectorLabels" . | nindent 6 }}
{{- end -}}

{{- define "deltawire.hpa" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ include "deltawire.fullname" .root }}-{{ .component }}
  labels:
    {{- include "deltawire.labels" . | nindent 4 }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ include "deltawire.fullname" .root }}-{{ .component }}
  minReplicas: {{ .values.autoscaling.minReplicas }}
  maxReplicas: {{ .values.autoscaling.maxReplicas }}
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {{ .values.autoscaling.cpuUtilization }}
  behavior:
    # A pod that goes takes its links with it, and the next turn of each conversation is full: shrink slowly.
    scaleDown:
      stabilizationWindowSeconds: 600
      policies:
        - type: Pods
          value: 1
          periodSeconds: 120
{{- end -}}

{{/* The admin port has a Service of its own, so that the one that clients use never carries it; and who scrapes it. */}}
{{- define "deltawire.monitored" -}}
{{- $metrics := dict "root" .root "component" (printf "%s-metrics" .component) -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "deltawire.fullname" .root }}-{{ .component }}-metrics
  labels:
    {{- include "deltawire.labels" $metrics | nindent 4 }}
spec:
  type: ClusterIP
  clusterIP: None
  selector:
    {{- include "deltawire.selectorLabels" . | nindent 4 }}
  ports:
    - name: metrics
      port: {{ .values.admin.port }}
      targetPort: deltawire-admin
      protocol: TCP
      appProtocol: http
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "deltawire.fullname" .root }}-{{ .component }}
  labels:
    {{- include "deltawire.labels" $metrics | nindent 4 }}
    {{- with .values.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "deltawire.selectorLabels" $metrics | nindent 6 }}
  namespaceSelector:
    matchNames: [{{ .root.Release.Namespace }}]
  endpoints:
    - port: metrics
      path: /metrics
      interval: {{ .values.serviceMonitor.interval }}
{{- end -}}
