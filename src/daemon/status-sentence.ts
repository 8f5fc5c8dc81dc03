/** One sentence of how the daemon stands, for `systemctl status`. Pure, and cheap: it is made every few seconds. */

import { formatCount } from '../lib/units.ts';
import type { Watched } from './state-of.ts';

export function statusSentence({ session, following, activity, phase }: Watched): string {
  const tables = `${formatCount(session.mirror.held.datasets.size)} tables`;
  if (phase === 'draining') return 'Ending what is under way.';
  const working = activity.work.size;
  if (working > 0) return `Working on ${formatCount(working)} datasets; ${tables}.`;
  if (phase === 'starting') return 'Asking the service what there is.';
  const failing = [...following.followees.values()].filter(({ isFailing }) => isFailing).length;
  if (failing > 0) return `${formatCount(failing)} subscriptions cannot be read now; ${tables}.`;
  const waiting = session.agenda.items.size;
  return waiting > 0 ? `${formatCount(waiting)} datasets wait; ${tables}.` : `Idle; ${tables}.`;
}
