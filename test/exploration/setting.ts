/** What kind of service a history is played with. A setting is written `two/time/noid/nodigest/later`. */

/**
 * - `one`: one subscription, `A`, which contains the dataset.
 * - `two`: two, `A` and `B`, which both contain it.
 * - `half`: two, of which only `A` contains it.
 */
const SUBSCRIPTIONS = ['one', 'two', 'half'] as const;

/** A manifest of each subscription that states its number, or says nothing of the log; or one of each dataset. */
const MANIFESTS = ['number', 'time', 'dataset'] as const;

/** Whether the record of a subscription states its newest event. */
const RECORDS = ['id', 'noid'] as const;

const DIGESTS = ['digest', 'nodigest'] as const;

/** Whether the steps come during the first load, or later. */
const STARTS = ['first', 'later'] as const;

export interface Setting {
  readonly subscriptions: (typeof SUBSCRIPTIONS)[number];
  readonly manifest: (typeof MANIFESTS)[number];
  readonly record: (typeof RECORDS)[number];
  readonly digests: (typeof DIGESTS)[number];
  readonly start: (typeof STARTS)[number];
}

export const ALL_SETTINGS: readonly Setting[] = SUBSCRIPTIONS.flatMap((subscriptions) =>
  MANIFESTS.flatMap((manifest) =>
    RECORDS.flatMap((record) =>
      DIGESTS.flatMap((digests) =>
        STARTS.map((start) => ({ subscriptions, manifest, record, digests, start })),
      ),
    ),
  ),
);

export function settingText({ subscriptions, manifest, record, digests, start }: Setting): string {
  return [subscriptions, manifest, record, digests, start].join('/');
}

/** What is left out is the first of its kind, but for `start`, which is `later`. @throws Error for an unknown word. */
export function parseSetting(text: string): Setting {
  const words = text.split('/');
  const of = <Word extends string>(kind: readonly Word[], otherwise: Word): Word =>
    kind.find((word) => words.includes(word)) ?? otherwise;
  const known: readonly string[] = [SUBSCRIPTIONS, MANIFESTS, RECORDS, DIGESTS, STARTS].flat();
  const unknown = words.find((word) => !known.includes(word));
  if (unknown !== undefined) throw new Error(`"${unknown}" is no part of a setting: ${known.join(' ')}.`);
  return {
    subscriptions: of(SUBSCRIPTIONS, 'one'),
    manifest: of(MANIFESTS, 'number'),
    record: of(RECORDS, 'id'),
    digests: of(DIGESTS, 'digest'),
    start: of(STARTS, 'later'),
  };
}

export type SubscriptionId = 'A' | 'B';

export function subscriptionsOf({ subscriptions }: Setting): readonly SubscriptionId[] {
  return subscriptions === 'one' ? ['A'] : ['A', 'B'];
}
