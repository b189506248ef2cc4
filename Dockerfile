# infermeter in a container: docker build -t infermeter . && docker run -p 127.0.0.1:8501:8501 infermeter
FROM python:3.13-slim-bookworm

WORKDIR /opt/infermeter
COPY requirements.lock ./
RUN python -m pip install --no-cache-dir --root-user-action=ignore --no-deps \
    --require-hashes --only-binary :all: -r requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY alerts alerts
COPY app app
COPY collectors collectors
COPY sql sql
RUN python -m pip install --no-cache-dir --root-user-action=ignore --no-deps --no-build-isolation .

COPY docker/infermeter.yaml /etc/infermeter/infermeter.yaml
RUN useradd --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin infermeter \
    && install --directory --owner=infermeter --group=infermeter /data
USER 10001
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8501

# Python, since the slim image has no curl; a direct connection, so that no proxy setting gets in between.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', 8501, timeout=3); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]

CMD ["infermeter", "serve", "--config", "/etc/infermeter/infermeter.yaml"]
