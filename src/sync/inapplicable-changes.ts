/**
 * Remembers which changes of one dataset were found inapplicable in this run, so that they are not fetched again: not by the next
 * plan, not for a day beside a snapshot that is bad, and not, where they are oversized, while their snapshot is awaited.
 */

import type { Failure } from '../checkpoint/checkpoint.ts';
import type { Version } from '../model/records.ts';
import type { StepResult } from './execute/step-tools.ts';
import { failureOf, newestContents } from './failures.ts';
import type { Parts } from './parts.ts';
import {
  inapplicableContentOf,
  oversizedBefore,
  oversizedChanges,
  oversizedContentOf,
  whyOversized,
} from './plan/content.ts';
import type { DatasetState } from './plan/dataset-state.ts';
import type { Metadata } from './plan/step.ts';
import { type Wait, waitingFor } from './result.ts';

export class InapplicableChanges {
  readonly #parts: Pick<Parts, 'choices' | 'clock'>;
  readonly #reasons = new Map<number, string>();
  /** The newest version whose changes alone exceed the limit of staged bytes. */
  #oversized: Version | null = null;

  constructor(parts: Pick<Parts, 'choices' | 'clock'>) {
    this.#parts = parts;
  }

  /** By version: why its changes are inapplicable. */
  get reasons(): ReadonlyMap<number, string> {
    return this.#reasons;
  }

  note({ versions, oversized }: Extract<StepResult, { readonly kind: 'inapplicable' }>): void {
    for (const [version, why] of versions) this.#reasons.set(version, why);
    this.#oversized = oversized ?? this.#oversized;
  }

  /** Returns the identities of the changes that fell back to a snapshot. */
  contents(metadata: Metadata | null): readonly string[] {
    const { maxStagedBytes } = this.#parts.choices;
    const versions = metadata?.versions ?? [];
    return versions
      .filter(({ version }) => this.#reasons.has(version))
      .map((record) =>
        record.version === this.#oversized?.version
          ? oversizedContentOf(record, maxStagedBytes)
          : inapplicableContentOf(record),
      );
  }

  /**
   * Returns the failure with the changes that fell back to a snapshot already known to be bad: they are not fetched again with it,
   * either. Null: it has them.
   */
  addedTo(failure: Failure, metadata: Metadata | null): Failure | null {
    const [latest, ...others] = failure.contents;
    const unknown = this.contents(metadata).filter(
      (content) => content !== latest && !others.includes(content),
    );
    if (latest === undefined || unknown.length === 0) return null;
    return { ...failure, contents: newestContents([latest, ...unknown, ...others]) };
  }

  /** Returns what keeps oversized changes from being fetched again. Null: no such changes are ahead of the table. */
  failureOfOversized({ desired, observed, failure }: DatasetState): Failure | null {
    const { clock, choices } = this.#parts;
    const record = this.#oversized;
    if (record === null || record.version <= (observed?.version ?? 0)) return null;
    const error = oversizedChanges(record, choices.maxStagedBytes);
    const content = oversizedContentOf(record, choices.maxStagedBytes);
    return failureOf(desired.datasetId, error, [content], failure, clock.now());
  }

  /** An operator may prefer another way than waiting for the snapshot of oversized changes, so the reason names them. */
  whyWaiting(step: Wait, { observed, failure }: DatasetState, metadata: Metadata | null): string {
    const { clock, choices } = this.#parts;
    const wasOversized = oversizedBefore(failure, clock.now(), choices.maxStagedBytes);
    const oversized = metadata?.versions.find(
      (record) =>
        record.version > (observed?.version ?? 0) &&
        (record.version === this.#oversized?.version || wasOversized(record)),
    );
    const why = whyOversized(choices.maxStagedBytes);
    if (oversized === undefined) return waitingFor(step);
    return `${waitingFor(step)}; the changes of version ${oversized.version} cannot be used: ${why}`;
  }
}
