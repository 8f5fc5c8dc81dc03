/** Runs scripts by psql, a reader that is not ours. Debian brings it with the server. */

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { DEBIAN } from '../../fixtures/postgres-server.ts';

/**
 * Runs a script and resolves to the records that it prints as CSV, without headers. A record of one value is that value; none has a
 * line break. @throws Error with what psql says
 */
export async function psql(address: string, script: string): Promise<readonly string[]> {
  const options = ['--no-psqlrc', '--quiet', '--csv', '--tuples-only', '--set', 'ON_ERROR_STOP=1'];
  const child = spawn(join(DEBIAN.folder ?? '', 'psql'), [address, ...options], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const output: Buffer[] = [];
  const said: Buffer[] = [];
  child.stdout.on('data', (bytes: Buffer) => output.push(bytes));
  child.stderr.on('data', (bytes: Buffer) => said.push(bytes));
  child.stdin.on('error', () => {});
  child.stdin.end(script);
  const code = await new Promise((resolve, reject) => {
    child.once('close', resolve);
    child.once('error', reject);
  });
  if (code !== 0) throw new Error(`psql ended with ${code}: ${Buffer.concat(said)}`);
  const lines = Buffer.concat(output).toString().split('\n').slice(0, -1);
  return lines.map((line) => (line.startsWith('"') ? line.slice(1, -1).replaceAll('""', '"') : line));
}

export function literal(value: string | null): string {
  return value === null ? 'NULL' : `'${value.replaceAll("'", "''")}'`;
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
