# memplane as an image: `docker build --build-arg UID=$(id -u) -t memplane:latest .`
# A pod's proxy is this image; so is `memplane up` for whoever prefers a container.
# Run `make assets` first: without htmx the build fails.
FROM python:3.13-slim
WORKDIR /build
COPY requirements/run.txt requirements/
RUN pip install --no-cache-dir --require-hashes --requirement requirements/run.txt
COPY pyproject.toml README.md LICENSE hatch_build.py ./
COPY src src
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

# Whoever owns the folders that a pod shares with its proxy.
ARG UID=1000
RUN useradd --uid "$UID" memplane && install -d -o memplane -m 0700 /data
WORKDIR /data
USER memplane
# Within a container all interfaces are its own network's; tokens are asked for there.
ENV MEMPLANE_HOME=/data \
    MEMPLANE_HTTP_HOST=0.0.0.0 \
    MEMPLANE_HTTP_TRUSTED_NETWORK=true
VOLUME /data
EXPOSE 6367
CMD ["memplane", "up"]
