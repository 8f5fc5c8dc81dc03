/** Which subscriptions the key sees, which of them are chosen, and which are gone. Pure. */

import type { Configuration } from '../../configuration/configuration.ts';
import { shellWord } from '../../lib/shell-word.ts';
import { formatCount } from '../../lib/units.ts';
import type { Subscription } from '../../model/subscription.ts';
import { refuseForeignMirror } from '../../sync/follow/ownership.ts';
import { chosenSubscriptions } from '../../sync/follow/selection.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import type { Check, Checked, Learned, Patient } from './check.ts';
import { counted } from './counted.ts';
import { type Finding, ok, skipped, trouble, troubleOf, warning } from './findings.ts';

const LIMIT_MS = 5_000;
/** Subscriptions that are told one by one; the rest is counted. */
const MAX_TOLD = 20;

export const subscriptionsCheck: Check = {
  name: 'subscriptions',
  limitMs: LIMIT_MS,
  run: checkSubscriptions,
};

function checkSubscriptions({ inspection }: Patient, learned: Learned): Checked {
  const { configuration } = inspection;
  const { subscriptions } = learned;
  if (configuration === null || subscriptions === null) {
    return { findings: [skipped('seen', 'The service was not asked, see key.')] };
  }
  return { findings: judgeSubscriptions(subscriptions, configuration, learned) };
}

/** What is to be said of what the key sees. */
export function judgeSubscriptions(
  seen: readonly Subscription[],
  configuration: Configuration,
  { checkpoint, mirror }: Pick<Learned, 'checkpoint' | 'mirror'>,
): readonly Finding[] {
  const findings: Finding[] = [];
  const followed = checkpoint?.followed ?? new Map();
  let chosen: readonly Subscription[] = [];
  try {
    chosen = chosenSubscriptions(seen, configuration.subscriptions, namesOf(checkpoint));
    findings.push(...seenFindings(seen, chosen));
  } catch (error) {
    findings.push(...seenFindings(seen, []), troubleOf('chosen', error));
  }
  const missing = [...followed.keys()].filter((id) => !chosen.some((one) => one.id === id));
  findings.push(...missing.map((id) => missingFinding(id, seen)));
  if (mirror === null) return findings;
  try {
    const origin = new URL(configuration.service.baseUrl).origin;
    refuseForeignMirror(mirror, origin, seen, checkpoint?.forgotten ?? []);
  } catch (error) {
    findings.push(troubleOf('mirror', error));
  }
  return findings;
}

function namesOf(checkpoint: Learned['checkpoint']): ReadonlyMap<string, string | null> {
  return new Map([...(checkpoint?.followed ?? [])].map(([id, { name }]) => [id, name]));
}

function seenFindings(seen: readonly Subscription[], chosen: readonly Subscription[]): readonly Finding[] {
  if (seen.length === 0) {
    const hint = 'Subscriptions are made in the web application of the service.';
    return [warning('seen', 'This API key sees no subscriptions: there is nothing to mirror.', hint)];
  }
  const told = seen.slice(0, MAX_TOLD).map((one) => {
    const { id, name, datasetCount, datasetIds } = one;
    const state = chosen.includes(one) ? 'chosen' : 'not chosen';
    const datasets = counted(datasetCount ?? datasetIds.length, 'dataset');
    return ok(id, `${name === null ? '' : `${name}: `}${datasets}, ${state}`);
  });
  const rest = seen.length - told.length;
  return rest === 0 ? told : [...told, ok('seen', `and ${formatCount(rest)} more`)];
}

function missingFinding(id: string, seen: readonly Subscription[]): Finding {
  const why = seen.some((one) => one.id === id)
    ? 'the setting subscriptions leaves it out'
    : 'the key does not see it';
  const found = `It was followed, and ${why}. Its datasets stay as they are.`;
  return trouble(
    id,
    found,
    EXIT_CODES.personMustAct,
    `When it is there again: feed-sync resume --subscription ${shellWord(id)}`,
    `To give it up, and retire what only it holds: feed-sync forget --subscription ${shellWord(id)}`,
  );
}
