/** Text that has to fit. Pure. */

const LEFT_OUT = '…';

/** The middle goes: ids begin and end with what tells them apart. */
export function shortened(text: string, width: number): string {
  if (text.length <= width) return text;
  const kept = Math.max(0, width - LEFT_OUT.length);
  const end = Math.floor(kept / 2);
  return `${text.slice(0, kept - end)}${LEFT_OUT}${text.slice(text.length - end)}`;
}

/** The end goes. */
export function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - LEFT_OUT.length))}${LEFT_OUT}`;
}

/** Parts, the more telling ones first, as far as they fit. */
export function joined(parts: readonly string[], width: number): string {
  const whole = parts.join(' · ');
  return whole.length <= width || parts.length <= 1 ? cut(whole, width) : joined(parts.slice(0, -1), width);
}
