/**
 * Runs an image's process as its configuration says: its user, environment, folder and words, as process 1, on a root
 * file system that cannot be written, with a volume and a secret, without capabilities and new privileges. It is done
 * with `unshare`, `mount` and `chroot`, because buildah's isolation that works everywhere cannot make the root read-only.
 */

import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Container, ImageConfiguration } from './buildah.ts';

export interface ContainerPlace {
  readonly container: Container;
  readonly configuration: ImageConfiguration;
  /** An empty folder for its volume and the view of its root. */
  readonly folder: string;
  readonly apiKey: string;
  readonly baseUrl: string;
}

export interface ContainerProcess {
  /** Sends a signal to process 1. */
  signal(name: NodeJS.Signals): void;
  readonly ended: Promise<Ended>;
}

export interface Ended {
  readonly exitCode: number | null;
  readonly seconds: number;
  readonly stdout: string;
}

export const SECRET_PATH = '/run/secrets/api-key';

const MOUNTS = `
mount --make-rprivate /
mount --bind "$ROOT" "$VIEW"
mount -o remount,bind,ro "$VIEW"
mount --bind "$DATA" "$VIEW/data"
mount --bind "$KEY" "$VIEW${SECRET_PATH}"
mount -t proc proc "$VIEW/proc"
mount --rbind /dev "$VIEW/dev"
exec chroot "$VIEW" "$@"
`;

export class ContainerRunner {
  readonly #place: ContainerPlace;
  readonly dataFolder: string;
  readonly #environment: Readonly<Record<string, string>>;

  constructor(place: ContainerPlace) {
    const { container, configuration, folder, apiKey } = place;
    const owner = Number.parseInt(configuration.User, 10);
    const paths = { DATA: join(folder, 'data'), VIEW: join(folder, 'view'), KEY: join(folder, 'api-key') };
    this.#place = place;
    this.dataFolder = paths.DATA;
    for (const path of [paths.DATA, paths.VIEW]) mkdirSync(path);
    writeFileSync(paths.KEY, apiKey, { mode: 0o400 });
    for (const path of [paths.DATA, paths.KEY]) chownSync(path, owner, owner);
    mkdirSync(join(container.root, 'run/secrets'), { recursive: true });
    writeFileSync(join(container.root, SECRET_PATH), '');
    this.#environment = { ...paths, ROOT: container.root, PATH: process.env['PATH'] ?? '' };
  }

  /** Starts the image's entry point with `words` in place of its command. */
  start(...words: readonly string[]): ContainerProcess {
    const { configuration } = this.#place;
    return this.#startAny([...configuration.Entrypoint, ...words]);
  }

  /** Runs what the image says its health is checked with. */
  checkHealth(): ContainerProcess {
    const [form, ...words] = this.#place.configuration.Healthcheck.Test;
    if (form !== 'CMD') throw new Error(`The health check is no list of words but ${form}.`);
    return this.#startAny(words);
  }

  #startAny(words: readonly string[]): ContainerProcess {
    const { configuration, baseUrl } = this.#place;
    const [user = '', group = ''] = configuration.User.split(':');
    const asUser = ['setpriv', '--reuid', user, '--regid', group, '--clear-groups', '--no-new-privs'];
    const withoutPower = ['--bounding-set=-all', '--inh-caps=-all'];
    const variables = [`FEED_SYNC_BASE_URL=${baseUrl}`, `FEED_SYNC_API_KEY_FILE=${SECRET_PATH}`];
    const given = ['env', '-i', `--chdir=${configuration.WorkingDir}`, ...configuration.Env, ...variables];
    const isolated = ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-ec', MOUNTS, 'sh'];
    const child = spawn('unshare', [...isolated, ...asUser, ...withoutPower, ...given, ...words], {
      env: this.#environment,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    return { signal: (name) => signalFirstProcess(child, name), ended: end(child) };
  }
}

function signalFirstProcess({ pid }: ChildProcess, name: NodeJS.Signals): void {
  const first = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());
  if (!(first > 0)) throw new Error('The container has no process to send a signal to.');
  process.kill(first, name);
}

async function end(child: ChildProcessByStdio<null, Readable, null>): Promise<Ended> {
  const startedMs = performance.now();
  const stdout = text(child.stdout);
  const [exitCode] = await once(child, 'exit');
  return { exitCode, seconds: (performance.now() - startedMs) / 1_000, stdout: await stdout };
}
