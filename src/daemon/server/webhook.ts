/**
 * The receiver of webhooks. One that is the service's wakes the loop, whatever it says: the log is the one source of
 * what happened.
 *
 * Invariant: what is refused wakes nothing and is remembered nowhere.
 */

import type { IncomingMessage } from 'node:http';
import type { ReadFile } from '../../configuration/locate.ts';
import type { Clock } from '../../lib/clock.ts';
import { ACCEPTED, type Answer, BAD_REQUEST, NOT_FOUND, TOO_LARGE, UNAUTHORIZED } from './answers.ts';
import { readBody } from './body.ts';
import { judge } from './delivery.ts';
import type { DeliveryOutcome } from './metrics.ts';
import { readSecrets } from './secrets.ts';

export interface WebhookParts {
  /** A secret on each line. Read for each delivery, so that a new secret counts at once. */
  readonly secretFile: string;
  /** The text of a file. @throws the system's errors, with `code`. */
  readonly readFile: ReadFile;
  /** Stores that a delivery arrived. False: it had arrived before. */
  readonly remember: (deliveryId: string, at: Date) => boolean;
  /** Makes the loop poll now. Must return at once. */
  readonly wake: () => void;
}

/** @throws what reading the secrets or remembering the delivery throws. */
export async function receive(
  request: IncomingMessage,
  parts: WebhookParts,
  clock: Clock,
  count: (outcome: DeliveryOutcome) => void,
): Promise<Answer> {
  const secrets = readSecrets(parts.secretFile, parts.readFile);
  if (secrets.length === 0) return NOT_FOUND;
  const refuse = (answer: Answer): Answer => {
    count('refused');
    return answer;
  };
  const body = await readBody(request);
  if (body === null) return refuse(TOO_LARGE);
  const now = clock.now();
  const judgement = judge({ headers: request.headers, body }, secrets, now);
  if (judgement.kind === 'malformed') return refuse(BAD_REQUEST);
  if (judgement.kind === 'unauthorized') return refuse(UNAUTHORIZED);
  const isNew = wakeIfNew(judgement.id, now, parts);
  count(isNew ? 'woke' : 'repeated');
  return ACCEPTED;
}

/** Where it cannot be remembered it wakes all the same, for waking twice does no harm. */
function wakeIfNew(deliveryId: string, now: Date, { remember, wake }: WebhookParts): boolean {
  let isNew = true;
  try {
    isNew = remember(deliveryId, now);
  } finally {
    if (isNew) wake();
  }
  return isNew;
}
