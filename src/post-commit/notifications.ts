/**
 * Sends notifications to the operator's own address.
 *
 * Invariants: nothing waits for a notification: each has a limit of time, and what cannot be delivered stays due instead of piling
 * up. A notification is recorded as sent after its delivery, so a process that ends in between repeats it. The address is a secret
 * (whoever knows it may post there): no text has any part of it.
 */

import type { Checkpoint } from '../checkpoint/checkpoint.ts';
import { agent } from '../feed/http/connections.ts';
import type { ProxyOptions } from '../feed/http/options.ts';
import { type Clock, deadlineIn } from '../lib/clock.ts';
import { systemCode, systemReason } from '../lib/files.ts';
import type { Log } from '../lib/log.ts';
import { type Secret, struckOut } from '../lib/secret.ts';
import { relayed } from '../lib/text.ts';
import { InterruptedError, NotificationError } from '../model/errors.ts';
import {
  type Condition,
  MAX_ITEM_CHARACTERS,
  type Notification,
  type NotificationLedger,
  nextNotification,
  type Occurrence,
  withOccurrences,
  withoutEnded,
} from '../model/notification.ts';

/** From the connection to the status of the answer. */
const DELIVERY_TIMEOUT_MS = 10_000;
/** Occurrences that wait to be stored; the loop takes them every few seconds, and of more only the first are named anyway. */
const MAX_OCCURRENCES = 1_000;
/** The body of an answer is not read, beyond what lets a connection end well. */
const MAX_ANSWER_BYTES = 64_000;
const ANSWER_BODY_TIMEOUT_MS = 1_000;

export type NotificationFormat = 'json' | 'slack';

export interface NotificationTarget {
  readonly url: Secret;
  readonly format: NotificationFormat;
}

/** Where notifications come from. */
export interface NotificationSource {
  readonly host: string;
  readonly dataDirectory: string;
}

/** The function that sends one notification. @throws NotificationError */
export type Deliver = (notification: Notification, at: Date, signal: AbortSignal) => Promise<void>;

export interface NotificationParts {
  readonly deliver: Deliver;
  readonly checkpoint: Pick<Checkpoint, 'notificationLedger' | 'keepNotificationLedger'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export class Notifications {
  readonly #parts: NotificationParts;
  #ledger: NotificationLedger | null = null;
  #occurrences: Occurrence[] = [];
  #isDelivering = false;

  constructor(parts: NotificationParts) {
    this.#parts = parts;
  }

  /** Returns at once. */
  note(occurrences: readonly Occurrence[]): void {
    this.#occurrences = [...this.#occurrences, ...occurrences].slice(0, MAX_OCCURRENCES);
  }

  /** Stores what was noted, so that it outlives this process; during a delivery, after it. @throws the errors of the checkpoint. */
  keep(): void {
    if (this.#isDelivering || this.#occurrences.length === 0) return;
    this.#store(withOccurrences(this.#known(), this.#occurrences));
    this.#occurrences = [];
  }

  /**
   * Sends whatever is due, one notification after another. `isComplete` as `nextNotification` takes it. @returns how many were sent.
   * @throws NotificationError where one cannot be delivered: it stays due; the errors of the checkpoint.
   */
  async notify(conditions: readonly Condition[], isComplete: boolean): Promise<number> {
    const { clock, log } = this.#parts;
    for (let sent = 0; ; sent += 1) {
      this.keep();
      const known = this.#known();
      const ledger = isComplete ? withoutEnded(known, conditions) : known;
      this.#ledger = ledger;
      const now = clock.now();
      const due = nextNotification(ledger, conditions, now, isComplete);
      if (due === null) return sent;
      const { kind, cause, count } = due.notification;
      await this.#deliver(due.notification, now);
      this.#store(due.after);
      log.info({ kind, cause, count }, 'An operator was notified.');
    }
  }

  async #deliver(notification: Notification, at: Date): Promise<void> {
    const { deliver, signal } = this.#parts;
    this.#isDelivering = true;
    try {
      await deliver(notification, at, signal);
    } finally {
      this.#isDelivering = false;
    }
  }

  #known(): NotificationLedger {
    return this.#ledger ?? this.#parts.checkpoint.notificationLedger();
  }

  #store(ledger: NotificationLedger): void {
    this.#parts.checkpoint.keepNotificationLedger(ledger);
    this.#ledger = ledger;
  }
}

/** Returns the delivery to an address. `secrets`: texts that no notification may hold, whatever its parts say. */
export function deliverTo(
  { url, format }: NotificationTarget,
  source: NotificationSource,
  { proxy, secrets }: { readonly proxy: ProxyOptions; readonly secrets: readonly Secret[] },
): Deliver {
  return async (notification, at, signal) => {
    const message =
      format === 'slack' ? slackMessage(notification, source) : jsonMessage(notification, source, at);
    const hidden = [url, ...secrets].map((secret) => secret.reveal());
    const body = struckOut(JSON.stringify(message), hidden);
    const dispatcher = agent({ connections: 1, timeoutMs: DELIVERY_TIMEOUT_MS }, proxy, {});
    try {
      await post(url, body, dispatcher, deadlineIn(DELIVERY_TIMEOUT_MS, signal).signal);
    } catch (error) {
      throw signal.aborted
        ? new InterruptedError('A notification was interrupted; it stays due.', { cause: signal.reason })
        : error;
    } finally {
      await dispatcher.destroy();
    }
  };
}

/** Follows no redirect: the operator named this address and no other. The status alone says whether it was delivered. */
async function post(
  secretUrl: Secret,
  body: string,
  dispatcher: ReturnType<typeof agent>,
  signal: AbortSignal,
): Promise<void> {
  let status: number;
  try {
    const { origin, pathname, search } = new URL(secretUrl.reveal());
    const headers = { 'content-type': 'application/json; charset=utf-8', 'user-agent': 'feed-sync' };
    const path = `${pathname}${search}`;
    const answer = await dispatcher.request({ origin, path, method: 'POST', headers, body, signal });
    status = answer.statusCode;
    const dump = deadlineIn(ANSWER_BODY_TIMEOUT_MS, signal);
    await answer.body.dump({ limit: MAX_ANSWER_BYTES, signal: dump.signal }).catch(() => {});
  } catch (error) {
    // The message of an error may have the address in it, and so may its cause.
    const why = signal.aborted ? 'no answer came in time' : connectionFault(error);
    throw failed(why);
  }
  if (status < 200 || status > 299) throw failed(`it answered with the status ${status}${moved(status)}`);
}

/** The new address may be as secret as the old one, so it is not shown. */
function moved(status: number): string {
  return status >= 300 && status <= 399
    ? ', a redirect, which is not followed: set the address that it leads to'
    : '';
}

function connectionFault(error: unknown): string {
  return systemCode(error) === null ? 'the connection failed' : systemReason(error);
}

function failed(why: string): NotificationError {
  return new NotificationError(
    `A notification could not be delivered to the address in notify.url: ${why}.`,
    {
      hint: 'Try it with: feed-sync notify test. What it was about stays due; see also feed-sync status.',
    },
  );
}

function jsonMessage({ items, ...rest }: Notification, source: NotificationSource, at: Date) {
  return { ...rest, title: plain(rest.title), items: items.map(plainItem), at: at.toISOString(), source };
}

/** The form of Slack's incoming webhooks, which Mattermost, Rocket.Chat and others take, too. */
function slackMessage({ title, items, count, advice }: Notification, source: NotificationSource) {
  const { host, dataDirectory } = source;
  const more = count - items.length;
  const lines = [
    `*${escaped(plain(title))}*`,
    ...items.map(plainItem).map(({ subject, text }) => `• ${escaped(subject)}: ${escaped(text)}`),
    ...(more > 0 && items.length > 0 ? [`• and ${more} more`] : []),
    escaped(advice),
    escaped(`feed-sync on ${host}, ${dataDirectory}`),
  ];
  return { text: lines.join('\n') };
}

function plainItem({ subject, text }: Notification['items'][number]) {
  return { subject: plain(subject), text: plain(text) };
}

function plain(text: string): string {
  return relayed(text).slice(0, MAX_ITEM_CHARACTERS).toWellFormed();
}

/** Slack makes links and mentions of what stands between angle brackets: `<!channel>` would call everybody. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** The notification that `feed-sync notify test` sends. */
export const TEST_NOTIFICATION: Notification = {
  kind: 'test',
  cause: 'test',
  title: 'Test: notifications of feed-sync arrive here',
  items: [],
  count: 0,
  advice: 'Nothing to do.',
};
