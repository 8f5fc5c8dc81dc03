/** Ids that a person gave and nobody knows, each with the one that was probably meant. Pure. */

import { nearest } from '../configuration/names.ts';
import { printable } from '../lib/printable.ts';

/** `parcel (the nearest is parcels), x`: what is not even half like any of the known ones has no nearest. */
export function tellUnknown(unknown: readonly string[], known: readonly string[]): string {
  return unknown.map((id) => `${shown(id)}${meant(id, known)}`).join(', ');
}

function shown(id: string): string {
  return id.trim() === '' ? `"${printable(id)}"` : printable(id);
}

function meant(id: string, known: readonly string[]): string {
  const candidate = nearest(id, known);
  return candidate === null ? '' : ` (the nearest is ${printable(candidate)})`;
}
