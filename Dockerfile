# The image runs feed-sync beside a data warehouse. It holds Node, the production dependencies without what only other
# machines or a compiler would need, and the built program; it runs as nobody's user on a read-only file system, and
# writes to /data alone. docs/guide.md says how to run it.

# A release names its base image by digest.
ARG BASE_IMAGE=node:24-bookworm-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json bundle.ts ./
COPY src ./src
# tsc by its own path: npm scripts would look for the "node" package, whose binary an install script puts in place.
RUN node node_modules/typescript/bin/tsc --project src/tsconfig.json && node bundle.ts
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
# better-sqlite3 brings the sources of SQLite, and its binary for eight systems. This image is one of them.
RUN cd node_modules/better-sqlite3 \
 && rm -r deps src binding.gyp \
 && find prebuilds -type f ! -name "linux-$(node -p process.arch).node" -delete \
 && test -s "prebuilds/linux-$(node -p process.arch).node"
# A checkout may be its owner's alone, and the program is another user here.
RUN chmod a+r package.json

FROM ${BASE_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="feed-sync" \
      org.opencontainers.image.description="Keeps tables in DuckDB or PostgreSQL equal to the datasets of a feed service." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV NODE_ENV=production \
    FEED_SYNC_DATA_DIR=/data
# tini reaps what a hook leaves behind. What installs packages has no use here.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
 && rm -rf /usr/local/lib/node_modules /opt/yarn* \
 && rm -f /usr/local/bin/npm /usr/local/bin/npx /usr/local/bin/corepack /usr/local/bin/yarn /usr/local/bin/yarnpkg
WORKDIR /app
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
RUN mkdir -m 0700 /data && chown 10001:10001 /data
# A number, so that Kubernetes can tell that it is not root.
USER 10001:10001
VOLUME /data
STOPSIGNAL SIGTERM
# The process and its loop; an outage of the feed does not fail it. Only "run" has a status server: start other commands
# with --no-healthcheck.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch('http://' + (process.env.FEED_SYNC_STATUS_LISTEN ?? '127.0.0.1:9464') + '/livez').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["tini", "--", "node", "--disable-sigusr1", "/app/dist/main.js"]
CMD ["run"]
