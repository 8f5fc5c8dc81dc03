/**
 * Whether the service accepts the key, and what it sees with it.
 *
 * Nothing is asked about what the checkpoint holds as refused, here and in the checks after this one, though a person
 * runs this command: the interface says that a refusal is not retried until the person has acted *on it*; running a
 * diagnosis is not acting on it, and doctor may be run by a timer. Who has acted says so with `feed-sync resume`; then
 * doctor asks again. A refusal that is met here is told and not stored: the next catch-up meets and stores it.
 */

import { createAccessCheck } from '../../feed/access-check.ts';
import { isKnownOrigin } from '../known-origin.ts';
import type { Check, Checked, Learned, Patient } from './check.ts';
import { counted } from './counted.ts';
import { ok, skipped } from './findings.ts';
import { inquiryOptions, whyNotAsked } from './inquiry.ts';

const LIMIT_MS = 60_000;

export const keyCheck: Check = { name: 'key', limitMs: LIMIT_MS, run: checkKey };

async function checkKey(patient: Patient, learned: Learned, signal: AbortSignal): Promise<Checked> {
  const { configuration } = patient.inspection;
  const why = whyNotAsked(configuration, learned);
  if (why !== null || configuration === null) return { findings: [skipped('key', why ?? '')] };
  const access = createAccessCheck({
    ...inquiryOptions(configuration, patient.context, learned.checkpoint),
    isKnownOrigin: async () => learned.mirror !== null && isKnownOrigin(configuration, learned.mirror),
  });
  try {
    const subscriptions = await access.subscriptions(signal);
    const found = `accepted; it sees ${counted(subscriptions.length, 'subscription')}`;
    return { findings: [ok('key', found)], learned: { subscriptions } };
  } finally {
    await access.close();
  }
}
