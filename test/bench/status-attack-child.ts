/** Attacks a status server in a process of its own, until its parent ends or lets it go: `status-attack-child.ts <attack> <url>`. */

import { type Attack, attack } from './status-attacks.ts';

const [kind, url] = process.argv.slice(2) as [Attack, string];
process.once('disconnect', () => process.exit());
attack(kind, url);
