# fl_audit with everything: docker build -t fl-audit . ; --build-arg EXTRAS="--extra gpu" for CUDA 11.8 libraries.
#   docker run --rm -v "$PWD:/data" fl-audit run config.toml --out run
FROM python:3.11-slim
ARG EXTRAS=""
RUN pip install --no-cache-dir uv==0.13.8
WORKDIR /opt/fl_audit
COPY pyproject.toml setup.cfg uv.lock README.md ./
COPY fl_audit fl_audit
RUN uv sync --frozen --no-dev --extra training --extra report ${EXTRAS}
ENV PATH="/opt/fl_audit/.venv/bin:$PATH"
WORKDIR /data
ENTRYPOINT ["fl-audit"]
