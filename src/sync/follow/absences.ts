/** What a complete read lacks, remembered until it is shown again or confirmed to be gone. */

import {
  type Absence,
  type AbsenceSubject,
  absenceKey,
  absentSince,
  isConfirmed,
} from '../../model/absence.ts';
import type { Parts } from '../parts.ts';

/**
 * Notes what a complete read at `readAt` (service time) lacked and what it showed. Gives what is confirmed to be gone. Of that
 * nothing is remembered, so whoever asks acts on it now; with `keep` it is remembered until it is shown.
 */
export function noteAbsences(
  absent: readonly AbsenceSubject[],
  present: readonly AbsenceSubject[],
  readAt: Date,
  { checkpoint }: Pick<Parts, 'checkpoint'>,
  mode: 'act' | 'keep' = 'act',
): readonly AbsenceSubject[] {
  if (absent.length + present.length === 0) return [];
  const known = new Map(checkpoint.absences().map((absence) => [absenceKey(absence.subject), absence.since]));
  const absences = absent.map((subject): Absence => {
    const before = known.get(absenceKey(subject)) ?? null;
    return { subject, since: absentSince(before, readAt) };
  });
  const confirmed = absences.filter((absence) => isConfirmed(absence, readAt)).map(({ subject }) => subject);
  const gone = new Set(mode === 'act' ? confirmed : []);
  const isNews = ({ subject, since }: Absence): boolean =>
    known.get(absenceKey(subject))?.getTime() !== since.getTime();
  checkpoint.noteAbsences(
    absences.filter((absence) => !gone.has(absence.subject) && isNews(absence)),
    [...present, ...gone].filter((subject) => known.has(absenceKey(subject))),
  );
  return confirmed;
}
