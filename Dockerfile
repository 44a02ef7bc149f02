# syntax=docker/dockerfile:1

FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
# The tools that build the wheel stay in this stage.
COPY requirements-build.lock requirements.lock ./
RUN ["python", "-m", "pip", "install", "--require-hashes", "-r", "requirements-build.lock"]
RUN ["python", "-m", "venv", "/opt/deltawire"]
RUN ["/opt/deltawire/bin/python", "-m", "pip", "install", "--require-hashes", "--only-binary=:all:", "-r", "requirements.lock"]
COPY LICENSE README.md pyproject.toml ./
COPY bench bench
COPY proxy proxy
COPY state state
COPY telemetry telemetry
COPY upstream upstream
COPY wire wire
RUN ["python", "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", "/wheel", "."]
RUN ["/opt/deltawire/bin/python", "-m", "pip", "install", "--no-deps", "--no-index", "--find-links=/wheel", "deltawire"]

FROM python:3.13-slim
LABEL org.opencontainers.image.title="deltawire" \
      org.opencontainers.image.description="Sends only what is new of stateless Responses API traffic, over persistent WebSockets" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/deltawire /opt/deltawire
ENV PATH=/opt/deltawire/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, not a name: Kubernetes checks runAsNonRoot without looking into the image.
USER 10001:10001
# Defaults listen on 127.0.0.1: whoever publishes a port says so, by DELTAWIRE_LISTEN and DELTAWIRE_ADMIN.
EXPOSE 8787 8788 8790
STOPSIGNAL SIGTERM
# Right for `deltawire proxy`; `deltawire upstream` answers /healthz on its own port, see compose.yaml. No proxy variable is followed.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["python", "-c", "import http.client as h, os, sys; c = h.HTTPConnection('127.0.0.1', int(os.environ.get('DELTAWIRE_ADMIN', ':8790').rsplit(':', 1)[1]), timeout=2); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["deltawire"]
CMD ["proxy"]
