# A small image of the release binary. OpenSSL is linked statically (feature `vendored`); glibc is Debian 12's.
FROM rust:1.95.0-slim-bookworm AS build
# The image's own toolchain, without the components for developers that rust-toolchain.toml asks for.
ENV RUSTUP_TOOLCHAIN=1.95.0
RUN apt-get update && apt-get install -y --no-install-recommends g++ make perl pkg-config zlib1g-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package walpost --features vendored

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home walpost
COPY --from=build /src/target/release/walpost /usr/local/bin/walpost
USER walpost
ENV WALPOST_CONFIG=/etc/walpost/walpost.toml
ENTRYPOINT ["walpost"]
CMD ["run"]
