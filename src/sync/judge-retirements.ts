/**
 * Which tables that no subscription holds may go: judged once in a catch-up, when the logs were read. Where a person has
 * to agree, that is stored as a hold; where nobody has to any more, the hold is lifted.
 */

import type { Hold } from '../checkpoint/checkpoint.ts';
import type { Held } from '../destination/destination.ts';
import type { Refusal } from '../model/errors.ts';
import { isChosenDataset } from './follow/selection.ts';
import { wantUnasked } from './follow/want-unasked.ts';
import { standingHolds, storeHold } from './holds.ts';
import type { Parts } from './parts.ts';
import {
  orphanChanges,
  orphansOf,
  type RetirementInput,
  type RetirementVerdict,
  retirementVerdicts,
} from './plan/retirement.ts';

const UNREAD: RetirementVerdict = { kind: 'logs-unread' };

/** `readToHead`: the subscriptions whose logs were read to their heads in this catch-up. */
export function judgeRetirements(
  held: Held,
  readToHead: ReadonlySet<string>,
  parts: Parts,
): (datasetId: string) => RetirementVerdict {
  adopt(orphansOf(inputOf(held, readToHead, parts)), readToHead, parts);
  const { verdicts, refusal } = retirementVerdicts(inputOf(held, readToHead, parts));
  const isAllRead = ![...verdicts.values()].includes('logs-unread');
  if (refusal === null && isAllRead) release(parts);
  const hold = refusal === null ? null : holdBack(refusal, parts);
  return (datasetId) => {
    const verdict = verdicts.get(datasetId);
    if (verdict === 'needs-approval' && hold !== null) return { kind: 'needs-approval', hold };
    return verdict === 'allowed' ? { kind: 'allowed' } : UNREAD;
  };
}

/** What the user did not choose is left alone: it neither goes nor counts. */
function inputOf(held: Held, readToHead: ReadonlySet<string>, parts: Parts): RetirementInput {
  const { checkpoint, choices } = parts;
  const chosen = <T>(all: ReadonlyMap<string, T>): ReadonlyMap<string, T> =>
    new Map([...all].filter(([datasetId]) => isChosenDataset(datasetId, choices.include, choices.exclude)));
  return {
    wants: chosen(checkpoint.wants()),
    held: { ...held, datasets: chosen(held.datasets) },
    followed: new Set(checkpoint.followed().keys()),
    heldSubscriptions: new Set(standingHolds(parts).subscriptions.keys()),
    readToHead,
    forgotten: new Set(checkpoint.forgotten()),
  };
}

/** Tables that nobody knows of become known as dropped, by one subscription for all: none of them lists these. */
function adopt(orphans: readonly string[], readToHead: ReadonlySet<string>, parts: Parts): void {
  const [subscriptionId] = readToHead;
  if (orphans.length === 0 || subscriptionId === undefined) return;
  parts.log.warn({ datasets: orphans.length }, 'The mirror has tables that no subscription lists.');
  wantUnasked(subscriptionId, orphanChanges(orphans), parts);
}

/** A hold that says the same already stands since it was first said. */
function holdBack(refusal: Refusal, parts: Parts): Hold {
  const standing = standingHolds(parts).retirement;
  return standing?.refusal.message === refusal.message ? standing : storeHold(parts, refusal);
}

/** Nothing waits for a person any more. */
function release(parts: Parts): void {
  if (standingHolds(parts).retirement !== null) parts.checkpoint.lift({ kind: 'retirement' });
}
