/**
 * Remembers the versions of one dataset that the list of versions lacks while it names only lower ones, until they are
 * shown, are not expected any more, or are confirmed to be gone.
 */

import { type Absence, type AbsenceSubject, absenceKey, confirmedAt } from '../model/absence.ts';
import { announcedVersions } from '../model/desired-state.ts';
import { noteAbsences } from './follow/audit.ts';
import type { Parts } from './parts.ts';
import type { DatasetState } from './plan/dataset-state.ts';
import type { Metadata } from './plan/step.ts';
import { absentVersions, headOf } from './plan/versions.ts';

type Expecting = Pick<DatasetState, 'desired' | 'observed'>;

export class VersionAbsences {
  readonly #datasetId: string;
  readonly #parts: Pick<Parts, 'checkpoint'>;

  constructor(datasetId: string, parts: Pick<Parts, 'checkpoint'>) {
    this.#datasetId = datasetId;
    this.#parts = parts;
  }

  note({ desired, observed }: Expecting, metadata: Metadata): void {
    const absent = absentVersions(observed, desired, metadata);
    noteAbsences(absent, this.#shown({ desired, observed }, metadata), metadata.readAt, this.#parts, 'keep');
  }

  /** Returns, by version, since when the version is absent. */
  since(): ReadonlyMap<number, Date> {
    return new Map(
      this.#noted().flatMap(({ subject, since }) =>
        subject.kind === 'version' ? [[subject.version, since] as const] : [],
      ),
    );
  }

  /** Returns when the first missing version can be confirmed as gone, in service time; null: none is missing. */
  recheckAt({ desired, observed }: Expecting, metadata: Metadata): Date | null {
    const absent = new Set(absentVersions(observed, desired, metadata).map(absenceKey));
    const noted = this.#noted().filter(({ subject }) => absent.has(absenceKey(subject)));
    const times = noted.map((absence) => confirmedAt(absence).getTime());
    return times.length === 0 ? null : new Date(Math.min(...times));
  }

  /** Forgets the versions that are not expected any more. */
  forgetUnexpected({ desired, observed }: Expecting): void {
    const expected = expectedBy({ desired, observed });
    this.#forget((version) => !expected.has(version));
  }

  /** The announced versions are void: only the table's own version is still expected. */
  forgetAnnounced({ observed }: Pick<DatasetState, 'observed'>): void {
    this.#forget((version) => version !== observed?.version);
  }

  #forget(isOver: (version: number) => boolean): void {
    const over = this.#noted()
      .map(({ subject }) => subject)
      .filter((subject) => subject.kind === 'version' && isOver(subject.version));
    this.#parts.checkpoint.noteAbsences([], over);
  }

  /** A list that was not read back far enough to name any expected version says nothing about them. */
  #shown(expecting: Expecting, metadata: Metadata): readonly AbsenceSubject[] {
    const expected = expectedBy(expecting);
    const newest = headOf(metadata)?.version ?? null;
    return this.#noted()
      .map(({ subject }) => subject)
      .filter((subject) => {
        if (subject.kind !== 'version' || !expected.has(subject.version)) return true;
        return newest !== null && newest >= subject.version;
      });
  }

  #noted(): readonly Absence[] {
    const noted = this.#parts.checkpoint.absences();
    return noted.filter(({ subject }) => subject.kind === 'version' && subject.datasetId === this.#datasetId);
  }
}

function expectedBy({ desired, observed }: Expecting): ReadonlySet<number> {
  return new Set([...(observed === null ? [] : [observed.version]), ...announcedVersions(desired)]);
}
