# The image runs feed-sync beside a data warehouse: production dependencies only, no install scripts, not root.

FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts
COPY tsconfig.json ./
COPY src ./src
# tsc by its own path: npm scripts would look for the "node" package, whose binary an install script puts in place.
RUN node node_modules/typescript/bin/tsc --project src/tsconfig.json
RUN npm ci --omit=dev --ignore-scripts

FROM node:24-bookworm-slim
ENV NODE_ENV=production FEED_SYNC_DATA_DIR=/data
WORKDIR /app
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
RUN mkdir /data && chown 10001:10001 /data
USER 10001:10001
VOLUME /data
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "/app/dist/main.js"]
CMD ["once"]
