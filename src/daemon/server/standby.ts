/**
 * The standby of an instance while another one works on the database: its server answers so, systemd is notified, the log has a line.
 * The standby begins when the other instance is first seen, and ends before the daemon starts.
 */

import type { ListenAddress } from '../../configuration/configuration.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Notifier } from '../notify.ts';
import { standingByAnswer } from './answers.ts';
import { reasonToStandBy } from './health.ts';
import { closeInTime, listenOn } from './listen.ts';
import { type AnswerQuestion, answerInTurn, answerTo, limitedServer, verdictAnswer } from './server.ts';

export interface StandbyParts {
  /** Null: there is no server. */
  readonly listen: ListenAddress | null;
  readonly notifier: Notifier;
  readonly clock: Clock;
  readonly log: Log;
}

export class Standby {
  readonly #parts: StandbyParts;
  readonly #ending = new AbortController();
  #holder = '';
  #since: Date | null = null;
  #server: Promise<() => Promise<void>> | null = null;

  constructor(parts: StandbyParts) {
    this.#parts = parts;
  }

  /** Aborted by `stop`. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** Notes which instance works; called again and again while it does. */
  note(holder: string): void {
    const { listen, notifier, clock, log } = this.#parts;
    notifier.progress();
    const isFirst = this.#since === null;
    if (!isFirst && holder === this.#holder) return;
    this.#holder = holder;
    notifier.status(`Stands by: ${holder} works on the database.`);
    log.info({ holder }, 'Stands by: another instance works on the database.');
    if (!isFirst) return;
    this.#since = clock.now();
    // A service manager counts a standby as started.
    notifier.ready();
    if (listen !== null) this.#server = this.#listen(listen);
  }

  /** Ends the waiting, where there is any: the signal is aborted. */
  stop(): void {
    if (this.#since !== null) this.#ending.abort();
  }

  /** Closes the server, so that the next one finds the address free. Never rejects. */
  async end(): Promise<void> {
    const close = await this.#server;
    await close?.();
    this.#server = null;
    this.#since = null;
  }

  /** The daemon reports an address that cannot be listened on, once it starts. */
  async #listen(listen: ListenAddress): Promise<() => Promise<void>> {
    const { clock, log } = this.#parts;
    const server = limitedServer();
    try {
      const { url, reach } = await listenOn(server, listen);
      answerInTurn(server, this.#parts, (request) => answerTo(request, reach === 'loopback', this.#answer));
      log.info({ url, receivesWebhooks: false }, 'The status server listens.');
      return () => closeInTime(server, clock);
    } catch (error) {
      log.error({ why: String(error) }, 'The status server failed.');
      return async () => {};
    }
  }

  readonly #answer: AnswerQuestion = async (question) => {
    if (question === 'livez' || question === 'healthz') return verdictAnswer([]);
    const reason = reasonToStandBy(this.#holder, this.#since ?? this.#parts.clock.now());
    return question === 'readyz' ? verdictAnswer([reason]) : standingByAnswer(reason.message);
  };
}
