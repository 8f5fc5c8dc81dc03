/** The contract of destinations, kept by a database whose schemas Citus distributes: the same tests as for the other destinations. */

import process from 'node:process';
import { AGAINST_CITUS } from '../support/destination-kinds.ts';

process.env[AGAINST_CITUS] = '1';
await import('./destinations.test.ts');
await import('./destinations-checksum.test.ts');
await import('./destinations-gates.test.ts');
await import('./destinations-history.test.ts');
await import('./destinations-past-tables.test.ts');
await import('./destinations-repair.test.ts');
