/** Ids that a person gave and nobody knows, each with the one that was probably meant. Pure. */

import { nearest } from '../configuration/names.ts';
import { printable } from './terminal.ts';

/** `parcel (the nearest is parcels), x (…)`. */
export function tellUnknown(unknown: readonly string[], known: readonly string[]): string {
  return unknown
    .map((id) =>
      known.length === 0
        ? printable(id)
        : `${printable(id)} (the nearest is ${printable(nearest(id, known))})`,
    )
    .join(', ');
}
